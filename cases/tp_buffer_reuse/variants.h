// Variants of the scenario. They differ in where gathered activations live, and what the GLU saves.
#pragma once

#include "harness/parallel/tensor_parallel.h"
#include "harness/scenario.h"

namespace tidemark::tp_buffer_reuse {

struct Layout {
  GatherPolicy gather = GatherPolicy::separate;
  bool fused_glu = false;

  bool recomputes() const {
    return gather == GatherPolicy::recomputed || gather == GatherPolicy::asynchronous ||
           gather == GatherPolicy::shared;
  }
  bool overlaps() const {
    return gather == GatherPolicy::asynchronous || gather == GatherPolicy::shared;
  }
};

const VariantTable<Layout>& variants();

}  // namespace tidemark::tp_buffer_reuse
