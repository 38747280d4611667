// Products of matrices. Of fp32 where a program allows TF32; and those whose result has another
// dtype than their operands (bf16 in, fp32 out), which only CUDA has.
#include "harness/virtual/operators/compositions.h"
#include "harness/virtual/operators/tf32.h"

namespace tidemark::operators {
namespace {

using Product = at::Tensor (*)(const at::Tensor&, const at::Tensor&);

// mm.dtype(self, mat2, out_dtype[, out]); bmm the same
template <Product product>
void plain(HostCall& call) {
  const auto dtype = call.stack[2].toScalarType();
  const at::Tensor result = product(tensor_at(call, 0).to(dtype), tensor_at(call, 1).to(dtype));
  if (call.stack.size() > 3) {
    const at::Tensor out = tensor_at(call, 3);
    out.copy_(result);
    give(call, out);
  } else {
    give(call, result);
  }
}

// addmm.dtype(self, mat1, mat2, out_dtype, beta, alpha[, out]); baddbmm the same
template <Product product>
void added(HostCall& call) {
  const auto dtype = call.stack[3].toScalarType();
  const at::Scalar beta = call.stack[4].toScalar(), alpha = call.stack[5].toScalar();
  at::Tensor result =
      product(tensor_at(call, 1).to(dtype), tensor_at(call, 2).to(dtype)).mul_(alpha);
  if (beta.toComplexDouble() != 0.0) result.add_(tensor_at(call, 0).to(dtype), beta);
  if (call.stack.size() > 6) {
    const at::Tensor out = tensor_at(call, 6);
    out.copy_(result);
    result = out;
  }
  give(call, result);
}

at::Tensor as_read(const at::Tensor& operand) {
  return has_tf32(Tf32Use::product) ? as_tf32(operand) : operand;
}

/// True if products are in float: of fp16, and of bf16 where this CPU has no instructions for them.
/// PyTorch's loops for them are up to a hundred times slower.
bool widens(at::ScalarType type) {
  static const bool has_bf16 = [] {
    const auto op =
        c10::Dispatcher::singleton().findSchema({"mkldnn::_is_mkldnn_bf16_supported", ""});
    return op && op->typed<bool()>().call();
  }();
  return type == at::kHalf || (type == at::kBFloat16 && !has_bf16);
}

// The CPU's own, on operands `first` and the one after it.
template <std::size_t first>
void as_gemm(HostCall& call) {
  for (const std::size_t i : {first, first + 1}) call.stack[i] = as_read(tensor_at(call, i));
  widens(tensor_at(call, first).scalar_type()) ? run_cpu_kernel_in_float(call)
                                               : run_cpu_kernel(call);
}

}  // namespace

at::Tensor as_tf32(const at::Tensor& operand) {
  if (operand.scalar_type() != at::kFloat) return operand;
  at::Tensor rounded = operand.clone(at::MemoryFormat::Preserve);
  rounded.view(at::kInt).add_(0x1000).bitwise_and_(~0x1fff);
  return rounded;
}

void add_matmul(Compositions& table) {
  for (const char* name : {"aten::mm", "aten::mm.out", "aten::bmm", "aten::bmm.out"})
    table[name] = as_gemm<0>;
  for (const char* name :
       {"aten::addmm", "aten::addmm.out", "aten::addmm_", "aten::baddbmm", "aten::baddbmm.out",
        "aten::baddbmm_", "aten::_addmm_activation", "aten::_addmm_activation.out"})
    table[name] = as_gemm<1>;
  for (const char* suffix : {"", "_out"}) {
    table[std::string("aten::mm.dtype") + suffix] = plain<at::mm>;
    table[std::string("aten::bmm.dtype") + suffix] = plain<at::bmm>;
    table[std::string("aten::addmm.dtype") + suffix] = added<at::mm>;
    table[std::string("aten::baddbmm.dtype") + suffix] = added<at::bmm>;
  }
}

}  // namespace tidemark::operators
