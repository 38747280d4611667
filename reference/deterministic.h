// Numbers that any rank and the reference can compute for any slice of any named tensor: a hash of
// seed, name and index.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tidemark::reference {

/// values[i] = value of element offset + i of the tensor `name`, evenly spread over 128 steps: [-1,
/// 1), for weights of products (names that hold "fc") [-1/8, 1/8), for weights of norms 1 + [-1/2,
/// 1/2). Exact in bfloat16, so that every precision starts alike. `step`: the width of a step, a
/// power of two, where it is not that of the name.
void fill(std::uint64_t seed, const std::string& name, std::int64_t offset,
          std::span<double> values, double step = 0);

/// The largest step, of `fill`, with which a product of weights that have `terms` inputs is at most
/// as large as its input, in the mean of squares: at least half as large.
double step_of_product(double terms);
/// The same for layer number `layer` of a chain of products, where it is rounded up or down so that
/// the whole chain down to the layer is between half as large as its input and as large.
double step_in_chain(double terms, std::int64_t layer);

}  // namespace tidemark::reference
