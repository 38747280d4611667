// A multi-grad hook, which libtorch's C++ interface lacks: a function that runs once in a backward,
// when the gradients of several tensors have been computed. It is built from one hook for each
// tensor and a counter that every backward resets.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <vector>

namespace tidemark {

class InputHooks {
 public:
  enum class Count {
    all,           // as many gradients as there are tensors, once begin() has said that the
                   // backward of their own call is under way: another call that shares a tensor
                   // may be first
    will_execute,  // as many as this backward will compute, by asking the engine which producers of
                   // the tensors it runs: wrong where it runs a part of them for another's sake
  };
  struct Calls {
    std::function<void()> each;      // whenever a hook runs
    std::function<void()> complete;  // when the counted gradients are there
  };

  /// `tensors` all require a gradient. Hooks of leaves stay on them until remove(); the others go
  /// with their graph.
  InputHooks(const std::vector<at::Tensor>& tensors, Count count, Calls calls);

  /// To be called when the gradient of the call's output is there.
  std::function<void()> begin() const;
  bool complete() const;
  /// Complete, or its graph is gone, so that it never will be.
  bool over() const { return complete() || counter_.use_count() == 1; }
  /// Not while a hook runs.
  void remove();

 private:
  struct Counter;
  struct Hook;
  std::shared_ptr<Counter> counter_;  // shared with the hooks
  std::vector<at::Tensor> leaves_;
};

}  // namespace tidemark
