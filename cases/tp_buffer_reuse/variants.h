// How the variants of the scenario differ: where gathered activations live, and what the GLU saves.
#pragma once

#include <string>
#include <vector>

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

std::vector<Variant> variants();
/// Throws std::out_of_range for a name that variants() does not have.
Layout layout_of(const std::string& variant);

}  // namespace tidemark::tp_buffer_reuse
