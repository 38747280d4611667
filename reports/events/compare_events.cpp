#include "reports/events/compare_events.h"

#include <fmt/format.h>

#include <algorithm>

namespace tidemark {
namespace {

constexpr std::size_t kMostPeaks = 4;  // of a trace, in the text

std::string describe(const BlockEvent* event) {
  if (event == nullptr) return "nothing more";
  const AllocatorAction action = event->action;
  const bool of_segment = !of_block(action) && action != AllocatorAction::oom;
  return fmt::format("{} of {} {}, {} bytes, stream {}{}", name_of(action),
                     of_segment ? "segment" : "block", event->block, event->bytes, event->stream,
                     event->op.empty() ? "" : " (" + event->op + ")");
}

bool same(const BlockEvent& a, const BlockEvent& b) {
  return a.action == b.action && a.block == b.block && a.bytes == b.bytes && a.stream == b.stream;
}

std::vector<const BlockEvent*> counted(const StepEvents& step, bool host_alone) {
  std::vector<const BlockEvent*> out;
  for (const BlockEvent& e : step.events)
    if (!host_alone || e.action == AllocatorAction::alloc ||
        e.action == AllocatorAction::free_requested)
      out.push_back(&e);
  return out;
}

std::string step_name(std::size_t index) {
  return index == 0 ? "while it is built" : fmt::format("step {}", index - 1);
}

/// A pair of traces.
struct Pair {
  const EventLog &first, &second;
  bool host_alone;
  std::int64_t events = 0;
  std::vector<std::string> lines = {};

  bool events_of(std::size_t index) {
    const auto a = counted(first.steps[index], host_alone),
               b = counted(second.steps[index], host_alone);
    for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
      const BlockEvent *one = i < a.size() ? a[i] : nullptr, *two = i < b.size() ? b[i] : nullptr;
      ++events;
      if (one != nullptr && two != nullptr && same(*one, *two)) continue;
      lines.push_back(fmt::format("{}, event {}{}: {} | {}", step_name(index), i,
                                  host_alone ? " of the host's" : "", describe(one),
                                  describe(two)));
      return false;
    }
    return true;
  }

  void peaks_of(std::size_t index) {
    const auto &a = first.steps[index].phases, &b = second.steps[index].phases;
    if (a.size() != b.size()) {
      lines.push_back(
          fmt::format("{}: {} phases | {} phases", step_name(index), a.size(), b.size()));
      return;
    }
    for (std::size_t i = 0; i < a.size(); ++i) {
      if (a[i].name != b[i].name)
        lines.push_back(
            fmt::format("{}: phase {} | phase {}", step_name(index), a[i].name, b[i].name));
      for (Statistic s : kStatistics) {
        const auto one = [&](const char* what, Bytes mine, Bytes theirs) {
          if (mine != theirs)
            lines.push_back(fmt::format("{}, {}, {} of {}: {} | {} bytes", step_name(index),
                                        a[i].name, what, name_of(s), mine, theirs));
        };
        one("peak", a[i][s].peak, b[i][s].peak);
        one("end", a[i][s].end, b[i][s].end);
      }
    }
  }

  void compare() {
    if (first.steps.size() != second.steps.size()) {
      lines.push_back(
          fmt::format("{} steps | {} steps", first.steps.size() - 1, second.steps.size() - 1));
      return;
    }
    for (std::size_t i = 0; i < first.steps.size(); ++i)
      if (!events_of(i)) break;
    if (host_alone) return;
    for (std::size_t i = 0; i < first.steps.size(); ++i) peaks_of(i);
  }
};

}  // namespace

EventComparison compare_events(const std::vector<EventLog>& first,
                               const std::vector<EventLog>& second) {
  EventComparison result;
  result.alone = pair_up(first, second, [&](const EventLog& log, const EventLog& other) {
    if (const std::string& why = log.unheld.empty() ? other.unheld : log.unheld; !why.empty()) {
      result.skipped.push_back(log.name() + ": " + why);
      return;
    }
    Pair pair{log, other, log.schedule != other.schedule || log.schedule == "device"};
    pair.compare();
    result.events += pair.events;
    if (pair.lines.empty())
      ++result.equal;
    else
      result.different.push_back({log.name(), std::move(pair.lines)});
  });
  return result;
}

int EventComparison::exit_code() const {
  if (!different.empty()) return 1;
  return equal == 0 ? 4 : 0;
}

std::string EventComparison::text(const std::string& first, const std::string& second) const {
  std::string out;
  if (!different.empty()) out += fmt::format("each difference: {} | {}\n", first, second);
  for (const EventDifference& each : different) {
    out += each.trace + "\n";
    for (std::size_t i = 0; i < std::min(each.lines.size(), 1 + kMostPeaks); ++i)
      out += "  " + each.lines[i] + "\n";
    if (each.lines.size() > 1 + kMostPeaks)
      out += fmt::format("  and {} more peaks and ends\n", each.lines.size() - 1 - kMostPeaks);
  }
  for (const std::string& each : skipped) out += fmt::format("skipped {}\n", each);
  for (const std::string& each : alone) out += fmt::format("in one alone: {}\n", each);
  return out +
         fmt::format("{} traces of {} events equal, {} different, {} skipped, {} in one alone\n",
                     equal, events, different.size(), skipped.size(), alone.size());
}

}  // namespace tidemark
