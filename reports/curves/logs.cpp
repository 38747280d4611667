#include "reports/curves/logs.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/record/number.h"
#include "reports/curves/formats.h"
#include "reports/curves/log_line.h"
#include "reports/curves/progress_bars.h"

namespace tidemark {
namespace {

constexpr std::size_t kLooked = 1 << 16;  // bytes in which a format shows

/// What a progress bar draws over is a line, too.
template <class Use>
void each_part(std::string_view text, const Use& use) {
  each_line(text, [&](std::string_view line, const std::string& place) {
    for (std::size_t at = 0; at <= line.size();) {
      const auto end = std::min(line.find('\r', at), line.size());
      if (end > at) use(line.substr(at, end - at), place);
      at = end + 1;
    }
  });
}

bool has_plain_loss(const LogLine& line) {
  return std::ranges::find(line.fields, "loss", &Record::value_type::first) != line.fields.end();
}

/// The rank before a line, as torchrun ("[rank0]:", "[default0]:"), srun ("0: ") and others write
/// it.
std::optional<std::int64_t> rank_of(std::string_view line) {
  line = trimmed(line);
  const auto digits = [](std::string_view text) {
    return text.substr(0, std::min(text.find_first_not_of("0123456789"), text.size()));
  };
  if (!line.starts_with('[')) {
    const std::string_view number = digits(line);
    const bool labels = !number.empty() && line.substr(number.size()).starts_with(": ");
    return labels ? parse_step(number) : std::nullopt;
  }
  line.remove_prefix(1);
  for (const std::string_view name : {"rank", "default", "Rank"}) {
    if (!line.starts_with(name)) continue;
    const std::string_view number = digits(trimmed(line.substr(name.size()), " =:"));
    return parse_step(number);
  }
  return std::nullopt;
}

/// Gives the lines of a log their steps. With `of_epochs` a line without any has its epoch.
class Steps {
 public:
  explicit Steps(bool of_epochs) : of_epochs_(of_epochs) {}

  /// `used`: of what the step is, for a note; null where the line names it or has none.
  std::optional<std::int64_t> of(const LogLine& line, const char** used = nullptr) {
    if (line.epoch && !line.dictionary) epoch_ = line.epoch;
    if (line.step) {
      before_ = line.step;
      said_.clear();
      for (const auto& [name, value] : line.fields) said_.insert(name);
      return line.step;
    }
    if (!line.loss || line.dictionary) return std::nullopt;
    if (line.done && line.of) {
      if (used && epoch_) *used = "has the steps of its progress bar, after those of its epochs";
      if (used && !epoch_) *used = "has the steps of its progress bar";
      return epoch_.value_or(0) * *line.of + *line.done;
    }
    if (of_epochs_ && line.epoch) return line.epoch;
    for (const auto& [name, value] : line.fields)  // what comes again is of another step
      if (before_ && !said_.insert(name).second) return std::nullopt;
    return before_;
  }

 private:
  bool of_epochs_;
  std::optional<std::int64_t> epoch_, before_;
  std::set<std::string> said_;  // since a step was named
};

/// True where a step that is named begins anew with an epoch.
bool begins_anew(std::string_view text) {
  std::optional<std::int64_t> step, epoch;
  bool anew = false, fell = false;
  each_part(text, [&](std::string_view part, const std::string&) {
    if (anew || fell) return;
    const LogLine line = log_line(part);
    if (!line.loss || !line.step || !line.epoch) return;
    if (step && *line.step <= *step) (line.epoch > epoch ? anew : fell) = true;
    step = line.step, epoch = line.epoch;
  });
  return anew;
}

/// What the begin of a log shows of its lines with a loss.
struct Begin {
  bool steps = false, both = false;  // that have a step; an epoch, too
  std::set<std::int64_t> ranks;      // that stand before them
};

Begin begin_of(std::string_view text) {
  Begin out;
  each_part(text.substr(0, kLooked), [&](std::string_view part, const std::string&) {
    const LogLine line = log_line(part);
    out.steps = out.steps || line.step || (line.loss && line.done);
    out.both = out.both || (line.loss && line.step && line.epoch);
    if (!line.loss || !(line.step || line.done || line.dictionary)) return;
    if (const auto rank = rank_of(part)) out.ranks.insert(*rank);
  });
  return out;
}

}  // namespace

bool fits_log(std::string_view text, std::string_view first) {
  if (first.starts_with("{\"") || first.starts_with("[{")) return false;
  bool any = false;
  Steps steps(true);
  each_part(text.substr(0, kLooked), [&](std::string_view part, const std::string&) {
    if (any) return;
    const LogLine line = log_line(part);
    const auto step = steps.of(line);
    any = line.dictionary && !step ? has_plain_loss(line) : line.loss && step;
  });
  return any;
}

void read_log(std::string_view text, Points& points) {
  const auto plain_loss = [](std::string_view part) { return has_plain_loss(log_line(part)); };
  const std::vector<std::int64_t> bars = steps_of_bars(text, "{'", plain_loss);
  const Begin begin = begin_of(text);
  const bool anew = begin.both && begins_anew(text);
  std::size_t number = 0;
  Steps steps(!begin.steps);
  each_part(text, [&](std::string_view part, const std::string& place) {
    if (begin.ranks.size() > 1)
      if (const auto rank = rank_of(part); rank && *rank != *begin.ranks.begin())
        return points.note("ranks", fmt::format("has lines of several ranks: those of rank {} are "
                                                "read",
                                                *begin.ranks.begin()));
    const bool cut = unfinished(text, part);
    LogLine line = log_line(part);
    const char* used = nullptr;
    auto step = steps.of(line, &used);
    if (line.dictionary && has_plain_loss(line)) {
      const std::size_t at = number++;
      if (!step && bars.empty()) {
        used = "has no steps: its lines with a loss are numbered";
        step = static_cast<std::int64_t>(at) + 1;
      } else if (!step && at < bars.size()) {
        used = "has the steps of its progress bar";
        step = bars[at];
      } else if (!step) {
        return points.note("cut", place + " is the last with a loss, has no step and is left out");
      }
    } else if (anew && line.loss) {
      used = "has steps that begin anew in each epoch: its lines with a loss are numbered";
      step = static_cast<std::int64_t>(++number);
    }
    if (cut && step && !line.loss) return points.note("cut", place + " is cut short and left out");
    if (!step && line.loss && !line.dictionary)
      points.note("nameless", "has losses whose step nothing names, which are left out");
    if (!step || line.fields.empty()) return;
    if (used) points.note("steps", used);
    line.fields.emplace_back("step", std::to_string(*step));
    points.add(line.fields, place);
  });
}

}  // namespace tidemark
