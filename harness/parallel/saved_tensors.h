// What autograd does with the tensors that an operator saves for its backward, for as long as a
// scope lives: C++'s counterpart of torch.autograd.graph.saved_tensors_hooks.
#pragma once

#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <functional>
#include <memory>

namespace tidemark {

/// Makes the hooks of one saved tensor.
using SavedTensorPolicy = std::function<std::unique_ptr<torch::autograd::SavedVariableHooks>()>;

/// While it lives, every tensor that autograd saves in this thread is packed by `policy`; the scope
/// opened last counts. PyTorch asks its engine for these hooks, so the first scope of a process
/// makes an engine that knows them the default one.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorPolicy policy);
  ~SavedTensorScope();
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;
};

/// Makes that engine the default one now. Its threads are others than those of the engine before,
/// so a program that measures memory does it before its first backward.
void install_saved_tensor_engine();

}  // namespace tidemark
