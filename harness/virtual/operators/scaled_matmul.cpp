// Products of matrices of 8-bit floats with scales, which the CPU lacks or knows in part: in float,
// and rounded once to the type of the result.
#include "harness/virtual/operators/compositions.h"

namespace tidemark::operators {
namespace {

/// An argument by its name: PyTorch's releases have them in other places. None where there is none.
c10::IValue named(const HostCall& call, const char* name) {
  const auto& arguments = call.op.schema().arguments();
  for (std::size_t i = 0; i < arguments.size(); ++i)
    if (arguments[i].name() == name) return call.stack[i];
  return {};
}

at::Tensor tensor_named(const HostCall& call, const char* name) {
  const c10::IValue value = named(call, name);
  if (value.isTensorList() && value.toTensorList().size() == 1) return value.toTensorVector()[0];
  return value.isTensor() ? value.toTensor() : at::Tensor();
}

/// The scale of an operand with so many rows (or columns), to be multiplied with the product.
at::Tensor scale_of(const HostCall& call, const char* name, std::int64_t count, bool of_rows) {
  const at::Tensor scale = tensor_named(call, name);
  const bool plain =
      scale.defined() && scale.scalar_type() == at::kFloat &&
      (scale.numel() == 1 || (scale.numel() == count && scale.size(of_rows ? 0 : -1) == count));
  TORCH_CHECK_NOT_IMPLEMENTED(
      plain, call.op.schema().name(),
      " has no numbers with these scales: one for a tensor, or one for each row, in float");
  if (scale.numel() == 1) return scale.reshape({1, 1});
  return of_rows ? scale.reshape({count, 1}) : scale.reshape({1, count});
}

/// Beyond the largest number of an 8-bit type lies that number, as cuBLAS saturates.
at::Tensor saturated(const at::Tensor& result, at::ScalarType type) {
  const double most = type == at::kFloat8_e4m3fn ? 448 : type == at::kFloat8_e5m2 ? 57344 : 0;
  return (most > 0 ? result.clamp(-most, most) : result).to(type);
}

// _scaled_mm(self, mat2, scale_a, scale_b, bias, scale_result, out_dtype, ...[, out])
void scaled_mm(HostCall& call) {
  const at::Tensor a = tensor_at(call, 0), b = tensor_at(call, 1);
  TORCH_CHECK_NOT_IMPLEMENTED(
      a.element_size() == 1 && b.element_size() == 1 && call.op.schema().returns().size() == 1,
      call.op.schema().name(), " has no numbers for these operands");
  at::Tensor result = at::mm(a.to(at::kFloat), b.to(at::kFloat));
  result.mul_(scale_of(call, "scale_a", a.size(0), true));
  result.mul_(scale_of(call, "scale_b", b.size(1), false));
  if (const at::Tensor bias = tensor_named(call, "bias"); bias.defined())
    result.add_(bias.to(at::kFloat));
  if (const at::Tensor scale = tensor_named(call, "scale_result"); scale.defined())
    result.mul_(scale.to(at::kFloat));
  result = saturated(result, call.outputs[0].toTensor().scalar_type());
  if (const at::Tensor out = tensor_named(call, "out"); out.defined()) {
    out.copy_(result);
    result = out;
  }
  give(call, result);
}

}  // namespace

void add_scaled_matmul(Compositions& table) {
  for (const char* name : {"aten::_scaled_mm", "aten::_scaled_mm.out", "aten::_scaled_mm_v2",
                           "aten::_scaled_mm_v2.out"})
    table[name] = scaled_mm;
}

}  // namespace tidemark::operators
