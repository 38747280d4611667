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

#include <utility>

#include "cases/device_facts.h"

namespace tidemark::tp_buffer_reuse {
namespace {

double as_double(std::int64_t value) { return static_cast<double>(value); }

std::map<std::string, double> units(const Dimensions& d, const reference::DeviceFacts& device) {
  const reference::AttentionPlan attention(d.attention(), device.processors);
  const auto whole = d.rows() * d.hidden * d.element();
  const auto repeated = attention.copies ? 2 * attention.queries : 0;
  const auto copied = !d.bf16 && d.batch > 1 ? attention.queries : 0;
  const auto random = d.bf16 ? 24 : 0;  // flash's random state, used or not
  const auto kept = 2 * d.shard_rows() * 4 + d.rows() * d.qkv() * d.element() + repeated +
                    attention.queries + copied + attention.statistics + random;
  return {{"F", as_double(whole)},    {"X", as_double(whole / d.ranks)},
          {"A", as_double(kept)},     {"f", as_double(d.rows() * d.own_ffn() * d.element())},
          {"L", as_double(d.layers)}, {"q", as_double(d.in_flight)},
          {"t", as_double(d.ranks)},  {"n_c", 2}};
}

const char* const kRetained = "q*(X + L*(2*X + A + n_c*F + 4*f))";  // of the baseline

/// What the policy takes off the baseline's figure; the buffer it costs is in `rest`.
std::string saved(const Layout& layout, std::int64_t ranks) {
  std::string text;
  if (layout.recomputes() && ranks > 1) text += " - q*n_c*L*(F - F/t)";
  if (layout.fused_glu) text += " - q*L*f";
  return text;
}

}  // namespace

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
  auto values = units(d, device);

  std::vector<Expectation> all;
  const auto add = [&](Statistic statistic, const std::string& phase, bool at_end,
                       const std::string& form, const char* remainder) {
    const auto index = static_cast<std::size_t>(statistic);
    const auto& level = predicted.phases.at(phase)[index];
    const double figure = as_double(at_end ? level.end : level.peak);
    values["rest"] = as_double(predicted.rest[index]);
    Formula stated{"replay", {{"replay", figure}}};
    if (form != "replay") stated = with_remainder(form, values, figure, remainder);
    all.push_back({statistic, phase, std::move(stated), at_end});
  };

  const std::string retained = "rest + " + (kRetained + saved(layout, d.ranks));
  for (const Statistic statistic : kStatistics) {
    const bool formless = statistic == Statistic::reserved || trial.steps == 1;
    const auto stated = [&](const std::string& form) {
      return formless ? std::string("replay") : form;
    };
    add(statistic, "forward", true, stated(retained), "small");
    add(statistic, "forward", false, stated(retained), "transient");
    add(statistic, "backward", false, stated(retained), "transient");
    // Gradients, and Adam's one temporary: each as large as the parameters of this rank.
    const auto bytes =
        2 * d.hidden + (d.qkv() + d.own_heads() * d.head() + 3 * d.own_ffn()) * d.hidden;
    values["P"] = as_double(bytes * d.element());
    add(statistic, "backward", true, stated("rest + L*P"), "small");
    add(statistic, "optimizer", false, stated("rest + 2*L*P"), "small");
    add(statistic, "optimizer", true, stated("rest + L*P"), "small");
  }
  return all;
}

std::vector<Expectation> expect(const Trial& trial, const Variant& variant, int rank) {
  return closed_forms(trial, variant, rank, current_device_facts());
}

}  // namespace tidemark::tp_buffer_reuse
