// Spatial transformers of cuDNN: bilinear, zeros outside, corners aligned.
#include "harness/virtual/operators/compositions.h"

namespace tidemark::operators {
namespace {

// cudnn_grid_sampler(self, grid)
void sample(HostCall& call) {
  give(call, at::grid_sampler_2d(accumulated(tensor_at(call, 0)), accumulated(tensor_at(call, 1)),
                                 0, 0, true));
}
// cudnn_grid_sampler_backward(self, grid, grad_output) -> (grad_self, grad_grid)
void sample_backward(HostCall& call) {
  const auto [self, grid] =
      at::grid_sampler_2d_backward(accumulated(tensor_at(call, 2)), accumulated(tensor_at(call, 0)),
                                   accumulated(tensor_at(call, 1)), 0, 0, true, {true, true});
  give(call, self, grid);
}
std::vector<std::int64_t> grid_sizes(const HostCall& call) {
  return {call.stack[1].toInt(), call.stack[2].toInt(), call.stack[3].toInt(),
          call.stack[4].toInt()};
}
// cudnn_affine_grid_generator(theta, N, C, H, W)
void affine_grid(HostCall& call) {
  give(call, at::affine_grid_generator(accumulated(tensor_at(call, 0)), grid_sizes(call), true));
}
// cudnn_affine_grid_generator_backward(grad, N, C, H, W)
void affine_grid_backward(HostCall& call) {
  give(call,
       at::affine_grid_generator_backward(accumulated(tensor_at(call, 0)), grid_sizes(call), true));
}

}  // namespace

void add_sampler(Compositions& table) {
  table["aten::cudnn_grid_sampler"] = sample;
  table["aten::cudnn_grid_sampler_backward"] = sample_backward;
  table["aten::cudnn_affine_grid_generator"] = affine_grid;
  table["aten::cudnn_affine_grid_generator_backward"] = affine_grid_backward;
}

}  // namespace tidemark::operators
