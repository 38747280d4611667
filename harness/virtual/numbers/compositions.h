// Host compositions by operator name: for operators that only CUDA has, or whose CPU kernel takes
// or gives other dtypes or shapes than CUDA's.
#pragma once

#include <unordered_map>

#include "harness/virtual/numbers/operators.h"

namespace tidemark::numbers {

using Compositions = std::unordered_map<std::string, HostKernel>;

void add_attention(Compositions& table);
void add_dropout(Compositions& table);
void add_histogram(Compositions& table);
void add_matmul(Compositions& table);
void add_norms(Compositions& table);
void add_softmax(Compositions& table);

/// The call's arguments, read by position.
inline at::Tensor tensor_at(const HostCall& call, std::size_t i) {
  return call.stack[i].isTensor() ? call.stack[i].toTensor() : at::Tensor();
}
/// Replaces the arguments by the results.
template <class... Results>
void give(HostCall& call, Results&&... results) {
  call.stack.clear();
  (call.stack.emplace_back(std::forward<Results>(results)), ...);
}

}  // namespace tidemark::numbers
