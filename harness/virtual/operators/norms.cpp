// Normalisations. CUDA keeps their statistics in the accumulation type (float for half precision);
// the CPU keeps them in the type of the parameters, and expects them so in backward.
#include "harness/virtual/operators/alias.h"
#include "harness/virtual/operators/compositions.h"

namespace tidemark::operators {
namespace {

// The dtype of the CPU's statistics: that of the parameter, else of the input.
at::ScalarType statistics_type(const at::Tensor& input, const at::Tensor& parameter) {
  return parameter.defined() ? parameter.scalar_type() : input.scalar_type();
}
void cast(HostCall& call, std::size_t i, at::ScalarType type) {
  const at::Tensor tensor = tensor_at(call, i);
  if (tensor.defined()) call.stack[i] = tensor.to(type);
}

// Brings the two arguments from `statistics` on to the CPU's type, by the argument `parameter`:
//   native_layer_norm_backward(grad_out, input, normalized_shape, mean, rstd, weight, bias, mask)
//   native_group_norm_backward(grad_out, input, mean, rstd, weight, N, C, HxW, group, mask)
//   native_batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean,
//     save_invstd, train, eps, mask)
//   batch_norm_backward(grad_out, input, weight, running_mean, running_var, save_mean, save_var,
//     update, eps, mask, reserve), the same but for the reserve, which only cuDNN fills
template <std::size_t statistics, std::size_t parameter>
void norm_backward(HostCall& call) {
  const auto type = statistics_type(tensor_at(call, 1), tensor_at(call, parameter));
  cast(call, statistics, type);
  cast(call, statistics + 1, type);
  run_cpu_kernel(call);
}

// In evaluation CUDA gives statistics, never read, where the CPU gives none: they stay as they are.
void batch_norm(HostCall& call) {
  run_cpu_kernel(call);
  for (std::size_t i = 1; i < call.stack.size(); ++i)
    if (call.stack[i].isTensor() && call.stack[i].toTensor().numel() == 0)
      call.stack[i] = at::Tensor();
}

std::vector<std::int64_t> normalized_dims(const at::Tensor& input, std::size_t count) {
  std::vector<std::int64_t> dims;
  for (std::size_t i = 0; i < count; ++i)
    dims.push_back(input.dim() - static_cast<std::int64_t>(count - i));
  return dims;
}

// _fused_rms_norm_backward(grad_out, input, normalized_shape, rstd, weight, mask) -> (grad_input,
// grad_weight)
//   x^ = x r;  dx = r (g w - x^ mean(g w x^));  dw = sum over rows of g x^
void rms_norm_backward(HostCall& call) {
  const at::Tensor input = tensor_at(call, 1), weight = tensor_at(call, 4);
  const auto type = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const at::Tensor grad = tensor_at(call, 0).to(type), x = input.to(type),
                   r = tensor_at(call, 3).to(type);
  const auto mask = call.stack[5].toBoolList();
  const auto shape = call.stack[2].toIntVector();
  const auto dims = normalized_dims(input, shape.size());
  const at::Tensor normalized = x * r;
  at::Tensor grad_input, grad_weight;
  if (mask[0]) {
    const at::Tensor scaled = weight.defined() ? grad * weight.to(type) : grad;
    grad_input = r * (scaled - normalized * (scaled * normalized).mean(dims, /*keepdim=*/true));
    grad_input = grad_input.to(input.scalar_type());
  }
  if (mask[1] && weight.defined()) {
    grad_weight =
        (grad * normalized).reshape({-1, c10::multiply_integers(shape)}).sum(0).reshape(shape);
    grad_weight = grad_weight.to(weight.scalar_type());
  }
  give(call, grad_input, grad_weight);
}

// _fused_rms_norm(input, normalized_shape, weight, eps) -> (output, rstd)
void rms_norm(HostCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 2);
  const auto type = input.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  const double otherwise = type == at::kDouble
                               ? std::numeric_limits<double>::epsilon()
                               : static_cast<double>(std::numeric_limits<float>::epsilon());
  const double eps = call.stack[3].isNone() ? otherwise : call.stack[3].toDouble();
  const at::Tensor x = input.to(type);
  const auto dims = normalized_dims(input, call.stack[1].toIntVector().size());
  const at::Tensor r = at::rsqrt(x.square().mean(dims, /*keepdim=*/true).add_(eps));
  at::Tensor output = x * r;
  if (weight.defined()) output = output * weight.to(type);
  give(call, output.to(input.scalar_type()), r);
}

// CUDA sums the squares of a norm as a tree, which keeps the accuracy of a float. The CPU sums them
// in as many lanes as its vectors have, and loses digits with the length of a lane; in double it
// does not. As CUDA's, the result is that of the output's type.
at::Tensor norm_of(const at::Tensor& self, const at::Scalar& order, at::OptionalIntArrayRef dims,
                   bool keep, std::optional<at::ScalarType> type) {
  const at::ScalarType out = type.value_or(self.scalar_type());
  return at::linalg_vector_norm(type ? self.to(*type) : self, order, dims, keep, at::kDouble)
      .to(out);
}

bool is_float(const at::Tensor& self, std::optional<at::ScalarType> type) {
  const at::ScalarType kind = type.value_or(self.scalar_type());
  return kind == at::kFloat || kind == at::kHalf || kind == at::kBFloat16;
}

// linalg_vector_norm(self, ord, dim, keepdim, *, dtype)
void vector_norm(HostCall& call) {
  const at::Tensor self = tensor_at(call, 0);
  const auto type = call.stack[4].toOptional<at::ScalarType>();
  if (!is_float(self, type)) return run_cpu_kernel(call);
  const auto dims = call.stack[2].toOptional<std::vector<std::int64_t>>();
  give(call,
       norm_of(self, call.stack[1].toScalar(), dims ? at::OptionalIntArrayRef(*dims) : std::nullopt,
               call.stack[3].toBool(), type));
}

// linalg_vector_norm.out(..., *, dtype, out)
void vector_norm_out(HostCall& call) {
  const at::Tensor out = tensor_at(call, 5);
  vector_norm(call);
  const at::Tensor result = call.stack.front().toTensor();
  if (!result.is_same(out)) store(out, result, "aten::linalg_vector_norm");
}

// _foreach_norm.Scalar(self, ord, dtype)
void foreach_norm(HostCall& call) {
  const auto type = call.stack[2].toOptional<at::ScalarType>();
  c10::List<at::Tensor> norms;
  for (const at::Tensor& self : call.stack[0].toTensorVector())
    norms.push_back(
        is_float(self, type)
            ? norm_of(self, call.stack[1].toScalar(), std::nullopt, false, type)
            : at::linalg_vector_norm(self, call.stack[1].toScalar(), std::nullopt, false, type));
  call.stack.clear();
  call.stack.emplace_back(norms);
}

}  // namespace

void add_norms(Compositions& table) {
  table["aten::native_layer_norm_backward"] = norm_backward<3, 5>;
  table["aten::native_group_norm_backward"] = norm_backward<2, 4>;
  table["aten::native_batch_norm_backward"] = norm_backward<5, 2>;
  table["aten::batch_norm_backward"] = norm_backward<5, 2>;
  for (const char* name : {"native_batch_norm", "_native_batch_norm_legit",
                           "_native_batch_norm_legit.no_stats", "_batch_norm_with_update"})
    table[std::string("aten::") + name] = batch_norm;
  table["aten::linalg_vector_norm"] = vector_norm;
  table["aten::linalg_vector_norm.out"] = vector_norm_out;
  table["aten::_foreach_norm.Scalar"] = foreach_norm;
  table["aten::_fused_rms_norm"] = rms_norm;
  table["aten::_fused_rms_norm_backward"] = rms_norm_backward;
}

}  // namespace tidemark::operators
