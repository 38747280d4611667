// The replay: the step on paper (reference/linear_chain_plan.h), run through the model of the
// allocator.
#include "cases/frozen_reshard/closed_forms.h"

#include "cases/device_facts.h"
#include "harness/judge/form.h"

namespace tidemark::frozen_reshard {
Policy claim_of(const Variant& variant) {
  auto policy = variants()[variant.name];
  if (variant.role != Role::control) return policy;
  return {.needs = policy.needs};
}

std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int rank) {
  const auto expected = predict(setup_of(trial, claim_of(variant), rank), current_device_facts());
  std::vector<Expectation> all;
  for (const auto& m : expected.moments)
    all.push_back(replayed_at(m.name, Statistic::allocated, m.allocated));
  if (variant.role == Role::control) return all;
  for (const auto& [phase, extents] : expected.predicted.phases) {
    if (phase == "zero_grad") continue;
    for (const Statistic statistic : kStatistics) {
      const auto peak = extents[static_cast<std::size_t>(statistic)].peak;
      all.push_back(replayed(statistic, phase, false, peak));
    }
    if (phase.starts_with("backward"))
      all.push_back(replayed(Statistic::allocated, phase, true, extents[0].end));
  }
  return all;
}

}  // namespace tidemark::frozen_reshard
