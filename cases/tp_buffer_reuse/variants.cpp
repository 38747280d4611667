#include "cases/tp_buffer_reuse/variants.h"

namespace tidemark::tp_buffer_reuse {
const VariantTable<Layout>& variants() {
  using enum GatherPolicy;
  static const VariantTable<Layout> all{{
      {{"separate", Role::baseline,
        "a differentiable all-gather, then a product: every gathered activation is kept for the "
        "weight gradient, and the GLU keeps both of its factors"},
       {separate, false}},
      {{"recompute", Role::fixed,
        "all-gather and product are one Function that gathers into a persistent buffer, keeps the "
        "shard and gathers again in backward"},
       {recomputed, false}},
      {{"no_recompute_fused_glu", Role::fixed,
        "gathered activations are kept; the GLU is one Function that keeps its input alone"},
       {cached, true}},
      {{"recompute_fused_glu", Role::fixed, "gathered again in backward, and the GLU fused"},
       {recomputed, true}},
      {{"async", Role::fixed,
        "both, with the collectives on a stream of their own and a second buffer for backward's "
        "gathered gradients"},
       {asynchronous, true}},
      {{"no_recompute", Role::control,
        "one Function that gathers into a fresh tensor and keeps it: saves nothing by itself",
        "memory/"},
       {cached, false}},
      {{"aliased", Role::control,
        "every collective writes one persistent buffer, and what autograd has saved is that buffer",
        "parity/"},
       {aliased, true}},
      {{"aliased_by_name", Role::control,
        "one persistent buffer for all-gathers, another for reduce-scatters: still overwritten "
        "before backward reads it",
        "parity/"},
       {aliased_by_name, true}},
      {{"async_shared", Role::control,
        "asynchronous, but the two gathers of backward share a buffer without a wait", "race/"},
       {shared, true}},
  }};
  return all;
}

}  // namespace tidemark::tp_buffer_reuse
