#include "cases/tp_buffer_reuse/reference.h"

#include <algorithm>
#include <cmath>

#include "cases/numbers.h"
#include "cases/tp_buffer_reuse/model.h"
#include "reference/transformer.h"

namespace tidemark::tp_buffer_reuse {

Oracle oracle(const Trial& trial) {
  const auto d = dimensions(trial);
  const auto result = reference::train({.layers = d.layers,
                                        .hidden = d.hidden,
                                        .ffn = d.ffn,
                                        .heads = d.heads,
                                        .kv_heads = d.kv_heads,
                                        .sequence = d.sequence,
                                        .batch = d.batch,
                                        .microbatches = d.in_flight,
                                        .steps = trial.steps,
                                        .seed = trial.seed});
  Oracle oracle = oracle_of(result);
  // A path through a block has four products, two norms, attention's two products and softmax and
  // the GLU, and comes back: 20 roundings of sums of at most `longest` terms, each off by about
  // sqrt(longest) half-units in the last place (rounding errors add up like a random walk). The
  // loss is a sum of squares and cancels nothing.
  const auto longest = static_cast<double>(std::max({d.hidden, d.ffn, d.rows()}));
  oracle.tolerance =
      unit_roundoff(!d.bf16) * static_cast<double>(20 * d.layers) * std::sqrt(longest);
  oracle.why =
      "u 20 layers sqrt(longest sum): rounding on a path forth and back, u the unit roundoff";
  return oracle;
}

}  // namespace tidemark::tp_buffer_reuse
