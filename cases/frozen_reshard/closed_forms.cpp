// The closed forms: what is alive at the highest moment of each phase, in units of
//   U  bytes of a layer's gathered parameters: they, the buffer they are gathered into, their
//      gradient and its reduce-scatter's input are as large;  S  of its sharded gradient
// above `rest`, what stays allocated between steps (parameters, optimizer state, inputs, loss,
// cuBLAS workspaces; frozen units that were never resharded are counted in U). How many are alive
// is counted in the plan (reference/linear_chain_plan.h). `small` is the rest of it: activations,
// adapters, tables, rounding and unsplit remainders. Reserved follows no formula: it is the
// replay's figure.
#include "cases/frozen_reshard/closed_forms.h"

#include "cases/device_facts.h"
#include "harness/form.h"

namespace tidemark::frozen_reshard {
namespace {

class Forms {
 public:
  explicit Forms(const Setup& setup) : expected_(predict(setup, current_device_facts())) {}

  std::vector<Expectation> memory() const {
    std::vector<Expectation> all;
    for (const auto& [phase, extents] : expected_.predicted.phases) {
      if (phase == "zero_grad") continue;
      for (const Statistic statistic : kStatistics) {
        const auto peak = extents[static_cast<std::size_t>(statistic)].peak;
        all.push_back(replayed(statistic, phase, false, peak));
      }
      if (!phase.starts_with("backward")) continue;
      all.push_back(replayed(Statistic::allocated, phase, true, extents[0].end));
    }
    return all;
  }

  std::vector<Expectation> trajectory() const {
    std::vector<Expectation> all;
    for (const auto& m : expected_.moments) {
      all.push_back(replayed_at(m.name, Statistic::allocated, m.allocated));
    }
    return all;
  }

 private:
  const reference::LinearChainPrediction expected_;
};

}  // namespace

Policy claim_of(const Variant& variant) {
  auto policy = variants()[variant.name];
  if (variant.role != Role::control) return policy;
  return {.needs = policy.needs};
}

std::vector<Expectation> expect(const Trial& trial, const Variant& variant, int rank) {
  const Forms forms(setup_of(trial, claim_of(variant), rank));
  auto all = forms.trajectory();
  if (variant.role == Role::control) return all;
  for (auto& each : forms.memory()) all.push_back(std::move(each));
  return all;
}

}  // namespace tidemark::frozen_reshard
