// Batch norm of cuDNN, and the four operators of CUDA alone that SyncBatchNorm is made of.
#include "harness/virtual/operators/compositions.h"

namespace tidemark::operators {
namespace {

// One value for each channel, as a factor of [N, C, ...].
at::Tensor by_channel(const at::Tensor& values, const at::Tensor& of) {
  std::vector<std::int64_t> shape(static_cast<std::size_t>(of.dim()), 1);
  shape[1] = values.numel();
  return accumulated(values).reshape(shape);
}
std::vector<std::int64_t> all_but_channels(const at::Tensor& of) {
  std::vector<std::int64_t> dims{0};
  for (std::int64_t d = 2; d < of.dim(); ++d) dims.push_back(d);
  return dims;
}

// cudnn_batch_norm(input, weight, bias, running_mean, running_var, training, factor, epsilon[, out
// x 4]) -> (output, save_mean, save_invstd, reserve). In evaluation there are no statistics; the
// reserve is cuDNN's own.
void cudnn_norm(HostCall& call) {
  const auto& s = call.stack;
  const bool training = s[5].toBool();
  auto [output, mean, invstd] = at::native_batch_norm(
      accumulated(tensor_at(call, 0)), tensor_at(call, 1), tensor_at(call, 2), tensor_at(call, 3),
      tensor_at(call, 4), training, s[6].toDouble(), s[7].toDouble());
  const at::Tensor none;
  if (s.size() == 8)
    return give(call, output, training ? mean : none, training ? invstd : none, none);
  const at::Tensor outs[]{tensor_at(call, 8), tensor_at(call, 9), tensor_at(call, 10),
                          tensor_at(call, 11)};
  const std::string name = c10::toString(call.op.operator_name());
  store(outs[0], output, name);
  if (training) {
    store(outs[1], mean, name);
    store(outs[2], invstd, name);
  }
  give(call, outs[0], outs[1], outs[2], outs[3]);
}

// cudnn_batch_norm_backward(input, grad_output, weight, running_mean, running_var, save_mean,
// save_var, epsilon, reserve)
void cudnn_norm_backward(HostCall& call) {
  const auto [input, weight, bias] = at::native_batch_norm_backward(
      accumulated(tensor_at(call, 1)), accumulated(tensor_at(call, 0)), tensor_at(call, 2),
      tensor_at(call, 3), tensor_at(call, 4), tensor_at(call, 5), tensor_at(call, 6), true,
      call.stack[7].toDouble(), {true, true, true});
  give(call, input, weight, bias);
}

// batch_norm_stats(input, eps) -> (mean, invstd)
void channel_stats(HostCall& call) {
  const at::Tensor x = accumulated(tensor_at(call, 0));
  const auto dims = all_but_channels(x);
  const auto [var, mean] = at::var_mean(x, dims, /*unbiased=*/false);
  give(call, mean, (var + call.stack[1].toDouble()).rsqrt());
}

// batch_norm_elemt(input, weight, bias, mean, invstd, eps[, out])
void normalise(HostCall& call) {
  const at::Tensor input = tensor_at(call, 0), weight = tensor_at(call, 1),
                   bias = tensor_at(call, 2);
  at::Tensor result = (accumulated(input) - by_channel(tensor_at(call, 3), input)) *
                      by_channel(tensor_at(call, 4), input);
  if (weight.defined()) result = result * by_channel(weight, input);
  if (bias.defined()) result = result + by_channel(bias, input);
  if (call.stack.size() > 6) {
    const at::Tensor out = tensor_at(call, 6);
    store(out, result, c10::toString(call.op.operator_name()));
    return give(call, out);
  }
  give(call, result);
}

// The statistics of parts of n_i elements, with mean m_i and biased variance v_i = 1 / r_i^2 - eps:
//   n = sum n_i, m = sum n_i m_i / n, v = sum n_i (v_i + (m_i - m)^2) / n
void gather_stats(HostCall& call, const at::Tensor& counts) {
  const auto& s = call.stack;
  const at::Tensor means = accumulated(tensor_at(call, 1)),
                   invstds = accumulated(tensor_at(call, 2));
  const at::Tensor running_mean = tensor_at(call, 3), running_var = tensor_at(call, 4);
  const double momentum = s[5].toDouble(), eps = s[6].toDouble();
  const at::Tensor n = accumulated(counts).to(means.scalar_type()).reshape({-1, 1});
  const at::Tensor total = n.sum();
  const at::Tensor mean = (means * n).sum(0) / total;
  const at::Tensor var = ((invstds.pow(-2) - eps + (means - mean).square()) * n).sum(0) / total;
  if (running_mean.defined()) running_mean.copy_(running_mean * (1 - momentum) + mean * momentum);
  if (running_var.defined())
    running_var.copy_(running_var * (1 - momentum) + var * total / (total - 1) * momentum);
  give(call, mean, (var + eps).rsqrt());
}
// batch_norm_gather_stats_with_counts(input, mean, invstd, running_mean, running_var, momentum,
// eps, counts); batch_norm_gather_stats with one count for all
void gather_with_counts(HostCall& call) { gather_stats(call, tensor_at(call, 7)); }
void gather_with_count(HostCall& call) {
  gather_stats(call, at::full({tensor_at(call, 1).size(0)}, call.stack[7].toScalar(), at::kFloat));
}

// batch_norm_backward_reduce(grad_out, input, mean, invstd, weight, input_g, weight_g, bias_g)
//   -> (sum_dy, sum_dy_xmu, grad_weight, grad_bias)
void norm_backward_sums(HostCall& call) {
  const auto& s = call.stack;
  const at::Tensor grad = accumulated(tensor_at(call, 0)), x = accumulated(tensor_at(call, 1));
  const auto dims = all_but_channels(x);
  const at::Tensor sum_dy = grad.sum(dims);
  const at::Tensor sum_dy_xmu = (grad * (x - by_channel(tensor_at(call, 2), x))).sum(dims);
  const at::Tensor invstd = accumulated(tensor_at(call, 3)), none;
  const bool inputs = s[5].toBool(), weights = s[6].toBool(), biases = s[7].toBool();
  give(call, inputs ? sum_dy : none, inputs ? sum_dy_xmu : none,
       weights ? sum_dy_xmu * invstd : none, biases ? sum_dy : none);
}

// batch_norm_backward_elemt(grad_out, input, mean, invstd, weight, sum_dy, sum_dy_xmu, count)
//   dx = (dy - sum_dy / n - (x - mean) invstd^2 sum_dy_xmu / n) invstd weight
void norm_backward_input(HostCall& call) {
  const at::Tensor grad = accumulated(tensor_at(call, 0)), x = accumulated(tensor_at(call, 1));
  const at::Tensor invstd = by_channel(tensor_at(call, 3), x), weight = tensor_at(call, 4);
  const at::Tensor n = tensor_at(call, 7).sum().to(grad.scalar_type());
  at::Tensor result = grad - by_channel(tensor_at(call, 5), x) / n -
                      (x - by_channel(tensor_at(call, 2), x)) * invstd.square() *
                          (by_channel(tensor_at(call, 6), x) / n);
  result = result * invstd;
  give(call, weight.defined() ? result * by_channel(weight, x) : result);
}

}  // namespace

void add_batch_norm(Compositions& table) {
  table["aten::cudnn_batch_norm"] = table["aten::cudnn_batch_norm.out"] = cudnn_norm;
  table["aten::cudnn_batch_norm_backward"] = cudnn_norm_backward;
  table["aten::batch_norm_stats"] = channel_stats;
  table["aten::batch_norm_elemt"] = table["aten::batch_norm_elemt.out"] = normalise;
  table["aten::batch_norm_gather_stats"] = gather_with_count;
  table["aten::batch_norm_gather_stats_with_counts"] = gather_with_counts;
  table["aten::batch_norm_backward_reduce"] = norm_backward_sums;
  table["aten::batch_norm_backward_elemt"] = norm_backward_input;
}

}  // namespace tidemark::operators
