// Numbers that any rank and the reference can compute for any slice of any named tensor: a hash of
// seed, name and index.
#pragma once

#include <cstdint>
#include <span>
#include <string>

namespace tidemark::reference {

/// values[i] = value of element offset + i of the tensor `name`, evenly spread over 128 steps: [-1,
/// 1), for weights of products (names that hold "fc") [-1/8, 1/8), for weights of norms 1 + [-1/2,
/// 1/2). Exact in bfloat16, so that every precision starts alike.
void fill(std::uint64_t seed, const std::string& name, std::int64_t offset,
          std::span<double> values);

}  // namespace tidemark::reference
