// Products whose result has another dtype than their operands (bf16 in, fp32 out): only CUDA has
// them.
#include "harness/virtual/numbers/compositions.h"

namespace tidemark::numbers {
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

}  // namespace

void add_matmul(Compositions& table) {
  for (const char* suffix : {"", "_out"}) {
    table[std::string("aten::mm.dtype") + suffix] = plain<at::mm>;
    table[std::string("aten::bmm.dtype") + suffix] = plain<at::bmm>;
    table[std::string("aten::addmm.dtype") + suffix] = added<at::mm>;
    table[std::string("aten::baddbmm.dtype") + suffix] = added<at::bmm>;
  }
}

}  // namespace tidemark::numbers
