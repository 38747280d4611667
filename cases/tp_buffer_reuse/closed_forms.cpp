#include "cases/tp_buffer_reuse/closed_forms.h"

#include <optional>

#include "cases/device_facts.h"
#include "cases/tp_buffer_reuse/forms.h"
#include "harness/judge/form.h"

namespace tidemark::tp_buffer_reuse {
namespace {

std::optional<Layout> claimed(const Variant& variant) {
  Layout layout = variants()[variant.name];
  if (variant.role != Role::control) return layout;
  // The Function alone, without gathering again, would save the gathers.
  if (layout.gather != GatherPolicy::cached) return std::nullopt;
  layout.gather = GatherPolicy::recomputed;
  return layout;
}

}  // namespace

std::vector<Expectation> on_paper(const Trial& trial, const Variant& variant, int /*rank*/) {
  const auto layout = claimed(variant);
  if (!layout || trial.steps < 2) return {};
  return forms(dimensions(trial), *layout, current_device_facts());
}

std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int /*rank*/) {
  const auto layout = claimed(variant);
  if (!layout) return {};
  const auto predicted = predict(dimensions(trial),
                                 {.function = layout->gather != GatherPolicy::separate,
                                  .recomputes = layout->recomputes(),
                                  .overlaps = layout->overlaps(),
                                  .fused_glu = layout->fused_glu},
                                 trial.steps, current_device_facts());
  std::vector<Expectation> all;
  for (const char* phase : {"forward", "backward", "optimizer"})
    for (const Statistic statistic : kStatistics) {
      const auto& level = predicted.phases.at(phase)[static_cast<std::size_t>(statistic)];
      all.push_back(replayed(statistic, phase, true, level.end));
      all.push_back(replayed(statistic, phase, false, level.peak));
    }
  return all;
}

}  // namespace tidemark::tp_buffer_reuse
