// Nested tensors (sequences of different lengths in one buffer), and the encoder layers that take
// them: by the CPU's kernels, but for what those lack or do otherwise than CUDA's.
#include <cmath>

#include "harness/virtual/operators/alias.h"
#include "harness/virtual/operators/compositions.h"
#include "harness/virtual/operators/refusal.h"

namespace tidemark::operators {
namespace {

// add(self, other, alpha), mul(self, other). CUDA's kernel takes a dense `other` with a row for
// each sequence of `self`; it ignores alpha.
void with_rows(HostCall& call) {
  const at::Tensor self = tensor_at(call, 0), other = tensor_at(call, 1);
  if (!is_nested(self) || is_nested(other) || other.dim() == 0) return run_cpu_kernel(call);
  const bool is_product = call.stack.size() == 2;
  if (!is_product && !call.stack[2].toScalar().equal(1))
    refuse<c10::NotImplementedError>(
        call.op.schema().name(),
        " has no numbers for a nested and a dense tensor with an alpha, which "
        "CUDA's kernel ignores");
  const at::Tensor result = at::clone(self);
  const auto parts = result.unbind(), rows = other.unbind();
  for (std::size_t i = 0; i < parts.size(); ++i)
    is_product ? parts[i].mul_(rows[i]) : parts[i].add_(rows[i]);
  give(call, result);
}

// _transform_bias_rescale_qkv(qkv, qkv_bias, num_heads) -> 3 x [B, H, T, D]. CUDA pads to a
// multiple of 8, with zeros; the CPU's padding has the bias.
void padded_qkv(HostCall& call) {
  const at::Tensor made = call.outputs[0].toTensor(), bias = accumulated(tensor_at(call, 1));
  const auto sequences = tensor_at(call, 0).unbind();
  at::Tensor all = at::zeros({made.size(0), made.size(2), bias.size(0)}, bias.options());
  for (std::size_t i = 0; i < sequences.size(); ++i)
    all[static_cast<std::int64_t>(i)].narrow(0, 0, sequences[i].size(0)).copy_(sequences[i] + bias);
  const auto parts = all.unflatten(-1, {3, made.size(1), made.size(3)}).permute({2, 0, 3, 1, 4});
  give(call, parts[0] / std::sqrt(static_cast<double>(made.size(3))), parts[1], parts[2]);
}

const Compositions& of_nested() {
  static const Compositions table{
      {"aten::add.Tensor", with_rows},
      {"aten::mul.Tensor", with_rows},
      {"aten::_native_multi_head_attention", run_cpu_kernel_in_float},
      {"aten::_transform_bias_rescale_qkv", padded_qkv},
      {"aten::_transformer_encoder_layer_fwd", run_cpu_kernel_in_float}};
  return table;
}

}  // namespace

void nested_kernel(HostCall& call) {
  const auto kernel = of_nested().find(c10::toString(call.op.operator_name()));
  kernel == of_nested().end() ? run_cpu_kernel(call) : kernel->second(call);
}

// CUDA's attention keeps its scores in float, where the CPU's layer rounds them.
void add_nested(Compositions& table) {
  table["aten::_native_multi_head_attention"] = run_cpu_kernel_in_float;
  table["aten::_transformer_encoder_layer_fwd"] = run_cpu_kernel_in_float;
}

}  // namespace tidemark::operators
