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

/// Engine::execute, then release_last_run().
std::vector<at::Tensor> run_backward(const torch::autograd::edge_list& starts,
                                     const std::vector<at::Tensor>& gradients,
                                     const torch::autograd::edge_list& ends, BackwardRun run);

/// Frees what the engine still holds of the run that `gradient` began: its results, and after an
/// error the gradients that had not been used. The engine's device thread keeps them until it
/// looks for the next run, which may be before or after this thread goes on, so memory would differ
/// from one program run to the next. A second, empty run ends that.
void release_last_run(const at::Tensor& gradient);

}  // namespace tidemark
