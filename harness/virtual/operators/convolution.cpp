// Convolutions. CUDA's go to cuDNN, and depthwise ones to kernels of PyTorch's own; the CPU's
// kernels compute them, in float where the operands have half precision.
#include "harness/virtual/operators/compositions.h"
#include "harness/virtual/operators/tf32.h"

namespace tidemark::operators {
namespace {

using Ints = std::vector<std::int64_t>;

at::Tensor operand(const at::Tensor& tensor, bool tf32) {
  const at::Tensor wide = accumulated(tensor);
  return tf32 && wide.defined() ? as_tf32(wide) : wide;
}

/// True if the engine for operands in fp32 has tensor cores. On an H100 those of depthwise
/// convolutions and with fewer than 8 channels or filters took no workspace for operands with
/// channels last, which tensor cores need (../cudnn/convolution.cpp, workspace_on_hopper).
bool on_tensor_cores(const at::Tensor& weight, std::int64_t groups) {
  return groups > 1 ? weight.size(1) > 1 : std::min(weight.size(0), weight.size(1)) >= 8;
}

at::Tensor convolved(const at::Tensor& x, const at::Tensor& weight, const at::Tensor& bias,
                     const Ints& stride, const Ints& padding, const Ints& dilation, bool tf32,
                     std::int64_t groups, bool transposed = false, const Ints& beyond = {}) {
  tf32 = tf32 && on_tensor_cores(weight, groups);
  // One image plane and one filter: oneDNN takes nine times as long as the unfolded product
  // (1024 x 1024, 2 x 2: 41 and 5 ms).
  if (x.dim() == 4 && weight.size(0) * weight.size(1) == 1 && groups == 1 && !transposed &&
      dilation == Ints{1, 1})
    return at::thnn_conv2d(accumulated(x), accumulated(weight), weight.sizes().slice(2),
                           accumulated(bias), stride, padding);
  return at::convolution(operand(x, tf32), operand(weight, tf32), accumulated(bias), stride,
                         padding, dilation, transposed, transposed ? beyond : Ints(stride.size()),
                         groups);
}

// The last argument of the forms with `out`.
void give_or_store(HostCall& call, std::size_t arguments, const at::Tensor& result) {
  if (call.stack.size() > arguments) {
    const at::Tensor out = tensor_at(call, arguments);
    store(out, result, c10::toString(call.op.operator_name()));
    give(call, out);
  } else {
    give(call, result);
  }
}

// cudnn_convolution(self, weight, padding, stride, dilation, groups, benchmark, deterministic,
// allow_tf32[, out])
void cudnn_plain(HostCall& call) {
  const auto& s = call.stack;
  give_or_store(call, 9,
                convolved(tensor_at(call, 0), tensor_at(call, 1), {}, s[3].toIntVector(),
                          s[2].toIntVector(), s[4].toIntVector(), s[8].toBool(), s[5].toInt()));
}

// cudnn_convolution_transpose(self, weight, padding, output_padding, stride, dilation, groups,
// benchmark, deterministic, allow_tf32[, out])
void cudnn_transposed(HostCall& call) {
  const auto& s = call.stack;
  give_or_store(
      call, 10,
      convolved(tensor_at(call, 0), tensor_at(call, 1), {}, s[4].toIntVector(), s[2].toIntVector(),
                s[5].toIntVector(), s[9].toBool(), s[6].toInt(), true, s[3].toIntVector()));
}

// cudnn_convolution_relu(self, weight, bias, stride, padding, dilation, groups)
void cudnn_relu(HostCall& call) {
  const auto& s = call.stack;
  give(call, convolved(tensor_at(call, 0), tensor_at(call, 1), tensor_at(call, 2),
                       s[3].toIntVector(), s[4].toIntVector(), s[5].toIntVector(),
                       has_tf32(Tf32Use::convolution), s[6].toInt())
                 .relu_());
}

// cudnn_convolution_add_relu(self, weight, z, alpha, bias, stride, padding, dilation, groups)
void cudnn_add_relu(HostCall& call) {
  const auto& s = call.stack;
  const at::Scalar alpha = s[3].isNone() ? at::Scalar(1) : s[3].toScalar();
  give(call, convolved(tensor_at(call, 0), tensor_at(call, 1), tensor_at(call, 4),
                       s[5].toIntVector(), s[6].toIntVector(), s[7].toIntVector(),
                       has_tf32(Tf32Use::convolution), s[8].toInt())
                 .add_(accumulated(tensor_at(call, 2)), alpha)
                 .relu_());
}

// _conv_depthwise2d(self, weight, kernel_size, bias, stride, padding, dilation[, out]);
// conv_depthwise3d the same
void depthwise(HostCall& call) {
  const auto& s = call.stack;
  give_or_store(
      call, 7,
      convolved(tensor_at(call, 0), tensor_at(call, 1), tensor_at(call, 3), s[4].toIntVector(),
                s[5].toIntVector(), s[6].toIntVector(), false, tensor_at(call, 0).size(1)));
}

// convolution_backward(grad_output, input, weight, bias_sizes, stride, padding, dilation,
// transposed, output_padding, groups, mask). A bias is added after the product, so its gradient
// never sees TF32.
void convolution_gradients(HostCall& call) {
  auto& s = call.stack;
  const at::Tensor grad = tensor_at(call, 0), weight = tensor_at(call, 2);
  const bool tf32 = grad.scalar_type() == at::kFloat && on_tensor_cores(weight, s[9].toInt()) &&
                    at::globalContext().userEnabledCuDNN() && has_tf32(Tf32Use::convolution);
  auto mask = s[10].toBoolList();
  const bool bias = mask[2];
  for (std::size_t i = 0; i < 3; ++i) s[i] = operand(tensor_at(call, i), tf32);
  if (tf32) {
    mask = c10::List<bool>({mask[0], mask[1], false});
    s[10] = mask;
  }
  run_cpu_kernel(call);
  if (tf32 && bias) {
    Ints dims{0};
    for (std::int64_t d = 2; d < grad.dim(); ++d) dims.push_back(d);
    call.stack[2] = grad.sum(dims);
  }
}

}  // namespace

void add_convolution(Compositions& table) {
  for (const char* suffix : {"", ".out"}) {
    table[std::string("aten::cudnn_convolution") + suffix] = cudnn_plain;
    table[std::string("aten::cudnn_convolution_transpose") + suffix] = cudnn_transposed;
    table[std::string("aten::_conv_depthwise2d") + suffix] = depthwise;
  }
  table["aten::conv_depthwise3d"] = depthwise;
  table["aten::cudnn_convolution_relu"] = cudnn_relu;
  table["aten::cudnn_convolution_add_relu"] = cudnn_add_relu;
  table["aten::convolution_backward"] = convolution_gradients;
}

}  // namespace tidemark::operators
