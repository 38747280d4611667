// The closed forms: above `rest` (parameters, optimizer state, persistent buffers, the loss, cuBLAS
// workspaces) a microbatch in flight keeps X for its input and, for each of L layers,
//   2 X  the inputs of the two norms (X is a sharded activation, F/t)
//   A    attention: queries, keys, values, output, log-sum-exp, and the norms' statistics
//   F    a gathered input for each of n_c column linears; recomputed, X
//   f    a GLU activation: gate, up, their product and, where the GLU is eager, silu(gate)
// What only an allocator can tell is the replay's (reference/transformer_plan.h): `small`, rounding
// and unsplit remainders; `transient`, what the highest moment of a phase adds; reserved as a
// whole.
#include "cases/tp_buffer_reuse/closed_forms.h"

#include "cases/device_facts.h"
#include "harness/form.h"

namespace tidemark::tp_buffer_reuse {
std::vector<Expectation> closed_forms(const Trial& trial, const Variant& variant, int /*rank*/,
                                      const reference::DeviceFacts& device) {
  Layout layout = variants()[variant.name];
  if (variant.role == Role::control) {
    // What it claims to be: the Function alone, without gathering again, would save the gathers.
    if (layout.gather != GatherPolicy::cached) return {};
    layout.gather = GatherPolicy::recomputed;
  }
  const auto d = dimensions(trial);
  const auto predicted = predict(d,
                                 {.function = layout.gather != GatherPolicy::separate,
                                  .recomputes = layout.recomputes(),
                                  .overlaps = layout.overlaps(),
                                  .fused_glu = layout.fused_glu},
                                 trial.steps, device);
  std::vector<Expectation> all;
  for (const char* phase : {"forward", "backward", "optimizer"})
    for (const Statistic statistic : kStatistics) {
      const auto& level = predicted.phases.at(phase)[static_cast<std::size_t>(statistic)];
      all.push_back(replayed(statistic, phase, true, level.end));
      all.push_back(replayed(statistic, phase, false, level.peak));
    }
  return all;
}

std::vector<Expectation> expect(const Trial& trial, const Variant& variant, int rank) {
  return closed_forms(trial, variant, rank, current_device_facts());
}

}  // namespace tidemark::tp_buffer_reuse
