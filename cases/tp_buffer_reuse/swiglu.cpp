#include "cases/tp_buffer_reuse/swiglu.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/custom_function.h>

namespace tidemark::tp_buffer_reuse {
namespace {

using torch::autograd::AutogradContext;
using torch::autograd::variable_list;

struct FusedSwiGlu : torch::autograd::Function<FusedSwiGlu> {
  static at::Tensor forward(AutogradContext* ctx, const at::Tensor& merged) {
    ctx->save_for_backward({merged});
    const auto halves = merged.chunk(2, 1);
    return at::silu(halves[0]).mul_(halves[1]);
  }
  static variable_list backward(AutogradContext* ctx, variable_list gradients) {
    const auto merged = ctx->get_saved_variables()[0];
    const auto& dy = gradients[0];
    const auto halves = merged.chunk(2, 1);
    const auto &gate = halves[0], &up = halves[1];
    const auto result = at::empty_like(merged);
    auto parts = result.chunk(2, 1);
    auto &dgate = parts[0], &dup = parts[1];
    at::silu_out(dup, gate);
    dup.mul_(dy);
    at::mul_out(dgate, dy, up);
    at::silu_backward_out(dgate, dgate, gate);
    return {result};
  }
};

}  // namespace

at::Tensor swiglu(const at::Tensor& merged) {
  const auto halves = merged.chunk(2, 1);
  return at::silu(halves[0]) * halves[1];
}

at::Tensor fused_swiglu(const at::Tensor& merged) { return FusedSwiGlu::apply(merged); }

}  // namespace tidemark::tp_buffer_reuse
