#include "harness/cli/extent.h"

#include <algorithm>

namespace tidemark {
namespace {

// True where the scenario runs under lagging too, under which memory is highest: in the same size,
// or loss curves in another.
bool lagging_stands_for(const PlannedTrial& one, const std::vector<PlannedTrial>& planned) {
  return one.trial.schedule != "lagging" &&
         std::ranges::any_of(planned, [&](const PlannedTrial& other) {
           const Trial &a = one.trial, &b = other.trial;
           return b.schedule == "lagging" && a.scenario == b.scenario &&
                  (a.size == "losses" || (a.size == b.size && a.mode == b.mode)) &&
                  other.unfit.empty();
         });
}

// Growth curves are drawn for the last size that a suite names, the most like real training;
// not for "scale": its steps take minutes.
bool draws_growth(const PlannedTrial& one, const std::vector<PlannedTrial>& planned) {
  const auto can = [&](const PlannedTrial& other) {
    return other.scenario == one.scenario && other.trial.schedule == "lagging" &&
           other.trial.size != "scale" && other.unfit.empty();
  };
  const auto last = std::find_if(planned.rbegin(), planned.rend(), can);
  return last != planned.rend() && &*last == &one;
}

}  // namespace

void set_extent(RunOptions& options, const PlannedTrial& one,
                const std::vector<PlannedTrial>& planned, const std::string& details) {
  const bool left_out = details == "none" || lagging_stands_for(one, planned);
  options.details = details == "all" ? Details::all : left_out ? Details::none : Details::worst;
  // Six more runs of every variant: not for the sizes that take minutes each.
  if (one.trial.schedule == "calibrated" && one.trial.mode == Mode::shapes && !one.slow)
    options.run_ahead = {0.5, 1, 2, 4, 8};
  options.growth = details != "none" && draws_growth(one, planned);
}

}  // namespace tidemark
