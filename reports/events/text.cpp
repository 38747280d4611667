#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <stdexcept>
#include <utility>

#include "harness/record/meaning.h"
#include "reports/events/events.h"
#include "reports/units.h"

namespace tidemark {
namespace {

constexpr std::string_view kFirst = "tidemark allocator events 1";

/// Takes a text apart line by line, and a line word by word.
class Reader {
 public:
  Reader(std::string_view text, const std::string& where) : text_(text), where_(where) {}

  bool next() {
    if (text_.empty()) return false;
    const auto end = text_.find('\n');
    if (end == std::string_view::npos) ++number_, fail("is cut off");
    line_ = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    ++number_;
    return true;
  }
  std::string_view word() {
    const auto end = std::min(line_.find(' '), line_.size());
    const auto word = line_.substr(0, end);
    line_.remove_prefix(std::min(end + 1, line_.size()));
    return word;
  }
  std::string rest() { return std::string(std::exchange(line_, {})); }
  bool ended() const { return line_.empty(); }
  template <class Number>
  Number number() {
    const auto text = word();
    Number value{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
      fail(fmt::format("'{}' is not a number", one_line(std::string(text))));
    return value;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw std::runtime_error(fmt::format("{}: line {}: {}", where_, number_, what));
  }

 private:
  std::string_view text_, line_;
  const std::string& where_;
  int number_ = 0;
};

void read_event(Reader& reader, char letter, StepEvents& step) {
  const auto action = kActions.find(letter);
  if (action == std::string_view::npos) reader.fail("is not an event of an allocator");
  BlockEvent event;
  event.action = static_cast<AllocatorAction>(action);
  event.block = reader.number<std::int64_t>();
  event.bytes = reader.number<Bytes>();
  event.stream = reader.number<std::uint32_t>();
  event.op = reader.rest();
  step.events.push_back(std::move(event));
}

Phase read_phase(Reader& reader) {
  Phase phase;
  for (Statistic s : kStatistics) {
    phase[s].peak = reader.number<Bytes>();
    phase[s].end = reader.number<Bytes>();
  }
  phase.name = reader.rest();
  return phase;
}

}  // namespace

std::string event_text(const EventLog& log) {
  std::string out =
      fmt::format("{}\ntrial {}\nschedule {}\nparams {}\nvariant {}\nrank {}\ndevice {}\n", kFirst,
                  one_line(log.trial), one_line(log.schedule), one_line(log.params),
                  one_line(log.variant), log.rank, one_line(log.device));
  if (!log.unheld.empty()) out += fmt::format("unheld {}\n", one_line(log.unheld));
  for (const StepEvents& step : log.steps) {
    out += "step\n";
    for (const BlockEvent& e : step.events) {
      out += fmt::format("{} {} {} {}", kActions[static_cast<std::size_t>(e.action)], e.block,
                         e.bytes, e.stream);
      out += e.op.empty() ? "\n" : " " + one_line(e.op) + "\n";
    }
    for (const Phase& phase : step.phases) {
      out += "phase";
      for (Statistic s : kStatistics) out += fmt::format(" {} {}", phase[s].peak, phase[s].end);
      out += " " + one_line(phase.name) + "\n";
    }
  }
  return out;
}

EventLog parse_events(std::string_view text, const std::string& where) {
  Reader reader(text, where);
  if (!reader.next() || reader.rest() != kFirst)
    throw std::runtime_error(
        fmt::format("{}: does not begin with '{}': give what `run --events` wrote", where, kFirst));
  EventLog log;
  const std::array<std::pair<std::string_view, std::string*>, 6> fields{
      {{"trial", &log.trial},
       {"schedule", &log.schedule},
       {"params", &log.params},
       {"variant", &log.variant},
       {"device", &log.device},
       {"unheld", &log.unheld}}};
  while (reader.next()) {
    const auto word = reader.word();
    const auto field = std::ranges::find(fields, word, [](const auto& each) { return each.first; });
    if (field != fields.end()) {
      *field->second = reader.rest();
    } else if (word == "rank") {
      log.rank = reader.number<int>();
    } else if (word == "step") {
      log.steps.emplace_back();
    } else if (log.steps.empty()) {
      reader.fail("stands before the first step");
    } else if (word == "phase") {
      log.steps.back().phases.push_back(read_phase(reader));
    } else if (word.size() == 1) {
      read_event(reader, word[0], log.steps.back());
    } else {
      reader.fail("is not a line of an allocator's events");
    }
  }
  if (log.trial.empty() || log.variant.empty() || log.steps.empty())
    throw std::runtime_error(
        fmt::format("{}: has no trial, no variant or no step: it is cut off", where));
  return log;
}

}  // namespace tidemark
