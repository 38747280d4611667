// One step of a recurrent network without cuDNN: CUDA's fused kernels after the two products.
#include "harness/virtual/operators/compositions.h"

namespace tidemark::operators {
namespace {

at::Tensor with_bias(const at::Tensor& gates, const at::Tensor& bias) {
  return bias.defined() ? accumulated(gates) + accumulated(bias) : accumulated(gates);
}

// _thnn_fused_lstm_cell(input_gates, hidden_gates, cx, input_bias, hidden_bias) -> (hy, cy,
// workspace); the workspace has the gates i, f, g, o after their activations
void lstm_cell(HostCall& call) {
  const at::Tensor gates = with_bias(tensor_at(call, 0), tensor_at(call, 3)) +
                           with_bias(tensor_at(call, 1), tensor_at(call, 4));
  const auto part = gates.chunk(4, 1);
  const at::Tensor i = part[0].sigmoid(), f = part[1].sigmoid(), g = part[2].tanh(),
                   o = part[3].sigmoid();
  const at::Tensor cy = f * accumulated(tensor_at(call, 2)) + i * g;
  give(call, o * cy.tanh(), cy, at::cat({i, f, g, o}, 1));
}

// _thnn_fused_lstm_cell_backward_impl(grad_hy, grad_cy, cx, cy, workspace, has_bias)
//   -> (grad_gates, grad_cx, grad_bias)
void lstm_cell_backward(HostCall& call) {
  const auto part = accumulated(tensor_at(call, 4)).chunk(4, 1);
  const at::Tensor &i = part[0], &f = part[1], &g = part[2], &o = part[3];
  const at::Tensor cx = accumulated(tensor_at(call, 2)), t = accumulated(tensor_at(call, 3)).tanh();
  const at::Tensor zero = at::zeros_like(t);
  const auto given = [&](std::size_t at) {
    return tensor_at(call, at).defined() ? accumulated(tensor_at(call, at)) : zero;
  };
  const at::Tensor hy = given(0), c = given(1) + hy * o * (1 - t * t);
  const at::Tensor gates = at::cat(
      {c * g * i * (1 - i), c * cx * f * (1 - f), c * i * (1 - g * g), hy * t * o * (1 - o)}, 1);
  give(call, gates, c * f, call.stack[5].toBool() ? gates.sum(0) : at::Tensor());
}

// _thnn_fused_gru_cell(input_gates, hidden_gates, hx, input_bias, hidden_bias) -> (hy, workspace);
// the workspace has r, z, n, hx, and the hidden part of n before its factor r
void gru_cell(HostCall& call) {
  const auto in = with_bias(tensor_at(call, 0), tensor_at(call, 3)).chunk(3, 1);
  const auto hidden = with_bias(tensor_at(call, 1), tensor_at(call, 4)).chunk(3, 1);
  const at::Tensor hx = accumulated(tensor_at(call, 2));
  const at::Tensor r = (in[0] + hidden[0]).sigmoid(), z = (in[1] + hidden[1]).sigmoid();
  const at::Tensor n = (in[2] + r * hidden[2]).tanh();
  give(call, n + z * (hx - n), at::cat({r, z, n, hx, hidden[2]}, 1));
}

// _thnn_fused_gru_cell_backward(grad_hy, workspace, has_bias)
//   -> (grad_input_gates, grad_hidden_gates, grad_hx, grad_input_bias, grad_hidden_bias)
void gru_cell_backward(HostCall& call) {
  const at::Tensor grad = accumulated(tensor_at(call, 0));
  const auto part = accumulated(tensor_at(call, 1)).chunk(5, 1);
  const at::Tensor &r = part[0], &z = part[1], &n = part[2], &hx = part[3], &hn = part[4];
  const at::Tensor dz = grad * (hx - n) * z * (1 - z), dn = grad * (1 - z) * (1 - n * n);
  const at::Tensor dr = dn * hn * r * (1 - r);
  const at::Tensor in = at::cat({dr, dz, dn}, 1), hidden = at::cat({dr, dz, dn * r}, 1), none;
  const bool bias = call.stack[2].toBool();
  give(call, in, hidden, grad * z, bias ? in.sum(0) : none, bias ? hidden.sum(0) : none);
}

}  // namespace

void add_cells(Compositions& table) {
  table["aten::_thnn_fused_lstm_cell"] = lstm_cell;
  table["aten::_thnn_fused_lstm_cell_backward_impl"] = lstm_cell_backward;
  table["aten::_thnn_fused_gru_cell"] = gru_cell;
  table["aten::_thnn_fused_gru_cell_backward"] = gru_cell_backward;
}

}  // namespace tidemark::operators
