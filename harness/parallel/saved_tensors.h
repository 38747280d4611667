// Hooks on the tensors that an operator saves for its backward, for as long as a scope lives: C++'s
// counterpart of torch.autograd.graph.saved_tensors_hooks.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <functional>
#include <memory>

namespace tidemark {

/// Makes the hooks of one saved tensor.
using SavedTensorPolicy = std::function<std::unique_ptr<torch::autograd::SavedVariableHooks>()>;

/// While it lives, every tensor that autograd saves in this thread is packed by `policy`; the scope
/// opened last counts. PyTorch asks its engine for these hooks, so a program with this in it has an
/// engine of its own from its start.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorPolicy policy);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;
};

}  // namespace tidemark
