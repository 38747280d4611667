// Host compositions by operator name: for operators that only CUDA has, or whose CPU kernel takes
// or gives other dtypes or shapes than CUDA's.
#pragma once

#include <unordered_map>

#include "harness/virtual/operators/operators.h"

namespace tidemark::operators {

using Compositions = std::unordered_map<std::string, HostKernel>;

void add_attention(Compositions& table);
void add_batch_norm(Compositions& table);
void add_cells(Compositions& table);
void add_convolution(Compositions& table);
void add_ctc(Compositions& table);
void add_differences(Compositions& table);
void add_dropout(Compositions& table);
void add_embedding_bag(Compositions& table);
void add_grouped_matmul(Compositions& table);
void add_histogram(Compositions& table);
void add_linalg(Compositions& table);
void add_matmul(Compositions& table);
void add_nested(Compositions& table);
void add_norms(Compositions& table);
void add_rnn(Compositions& table);
void add_sampler(Compositions& table);
void add_scaled_matmul(Compositions& table);
void add_softmax(Compositions& table);

/// The call's arguments, read by position.
inline at::Tensor tensor_at(const HostCall& call, std::size_t i) {
  return call.stack[i].isTensor() ? call.stack[i].toTensor() : at::Tensor();
}
/// An argument by its name, or the only tensor of a list: PyTorch's releases have them in other
/// places. Undefined where there is none.
inline at::Tensor tensor_named(const HostCall& call, const char* name) {
  const auto& arguments = call.op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() != name) continue;
    const c10::IValue& value = call.stack[i];
    if (value.isTensorList() && value.toTensorList().size() == 1) return value.toTensorVector()[0];
    return tensor_at(call, i);
  }
  return {};
}
/// The value that tensor cores read of an fp32 operand if PyTorch allows TF32: 10 bits of the
/// mantissa, to nearest, ties away from zero (PTX: cvt.rna.tf32.f32). The products are then added
/// up in fp32. Operands of other types as they are.
at::Tensor as_tf32(const at::Tensor& operand);
/// In the type that CUDA's kernels accumulate in: float for half precision.
inline at::Tensor accumulated(const at::Tensor& tensor) {
  const bool half = tensor.defined() &&
                    (tensor.scalar_type() == at::kHalf || tensor.scalar_type() == at::kBFloat16);
  return half ? tensor.to(at::kFloat) : tensor;
}
/// Replaces the arguments by the results.
template <class... Results>
void give(HostCall& call, Results&&... results) {
  call.stack.clear();
  (call.stack.emplace_back(std::forward<Results>(results)), ...);
}

}  // namespace tidemark::operators
