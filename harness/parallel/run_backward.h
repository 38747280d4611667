// A run of autograd's engine, after which nothing of it is left.
#pragma once

#include <ATen/core/Tensor.h>
#include <torch/csrc/autograd/edge.h>

#include <vector>

namespace tidemark {

struct BackwardRun {
  bool keep_graph = false;
  /// Adds to the leaves' grad(); otherwise the gradients of `ends` are returned.
  bool accumulate = false;
};

/// Engine::execute. The engine's device thread keeps the results of a run until it looks for the
/// next one, which may be before or after this thread goes on: whoever measures memory then sees
/// now one figure, now another. So a second, empty run follows.
std::vector<at::Tensor> run_backward(const torch::autograd::edge_list& starts,
                                     const std::vector<at::Tensor>& gradients,
                                     const torch::autograd::edge_list& ends, BackwardRun run);

}  // namespace tidemark
