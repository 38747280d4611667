// The replay: the step on paper (reference/multi_mlp_plan.h), run through the model of the
// allocator.
#include "cases/fsdp_prefetch/closed_forms.h"

#include "cases/device_facts.h"
#include "harness/judge/form.h"

namespace tidemark::fsdp_prefetch {
Predicted replay(const Trial& trial, const Layout& layout, int rank, const DeviceFacts& device) {
  using enum reference::ShardedOptions::Buffer;
  const auto precision = trial["precision"];
  return predict({.layers = trial["layers"],
                  .hidden = trial["hidden"],
                  .rows = trial["batch"] / trial.ranks,
                  .ranks = trial.ranks,
                  .rank = rank,
                  .steps = trial.steps,
                  .instant = trial.schedule != "lagging",
                  .explicit_prefetch = layout.explicit_prefetch,
                  .sharding = {.buffer = layout.gather == GatherLayout::separate_streams ? copy_in
                                         : layout.gather == GatherLayout::two_buffers ? persistent
                                                                                      : compute,
                               .recorded = layout.records(),
                               .in_flight_limit = layout.in_flight_limit,
                               .reshard_after_forward = trial["reshard_after_forward"] != 0,
                               .stored = precision == 1 ? 2 : 4,
                               .gathered = precision == 0 ? 4 : 2,
                               .reduced = 4}},
                 device);
}

std::vector<Expectation> closed_forms(const Trial& trial, const Variant& variant, int rank,
                                      const DeviceFacts& device) {
  if (variant.role == Role::control) return {};
  const Layout layout = variants()[variant.name];
  const auto at = [&](const char* schedule) {
    Trial other = trial;
    other.schedule = schedule;
    return replay(other, layout, rank, device);
  };
  const bool recorded = layout.records() && trial.ranks > 1;
  const bool timeless = !recorded || trial.schedule == "instant" || trial.schedule == "lagging";
  const auto predicted = timeless ? replay(trial, layout, rank, device) : at("instant");
  const auto latest = timeless ? predicted : at("lagging");
  std::vector<Expectation> all;
  for (const Statistic statistic : kStatistics) {
    if (!timeless && statistic != Statistic::allocated) continue;
    for (const char* phase : {"forward", "backward", "optimizer"}) {
      const auto index = static_cast<std::size_t>(statistic);
      const auto peak = predicted.phases.at(phase)[index].peak;
      // With a clock, which waiting blocks are free again decides unsplit remainders, hence
      // allocated, too.
      if (latest.phases.at(phase)[index].peak == peak)
        all.push_back(replayed(statistic, phase, false, peak));
    }
  }
  return all;
}

std::vector<Expectation> expect(const Trial& trial, const Variant& variant, int rank) {
  return closed_forms(trial, variant, rank, current_device_facts());
}

}  // namespace tidemark::fsdp_prefetch
