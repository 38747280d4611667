// shapes with race detection: the originals, watched; and the few CPU operators through which the
// host reads and writes pinned memory.
#include "harness/virtual/numbers/kernels.h"
#include "harness/virtual/numbers/watch.h"

namespace tidemark::numbers {
namespace {
using torch::jit::Stack;

class WatchedKernel final : public c10::OperatorKernel {
 public:
  WatchedKernel(const c10::OperatorHandle& op, Original original)
      : signature_(op), original_(std::move(original)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const c10::IValue* arguments = stack->data() + stack->size() - signature_.arguments;
    Stack held;  // as in math: several out tensors come back as references that nothing else holds
    if (signature_.returns > 1) held.assign(arguments, arguments + signature_.arguments);
    Watch watch(signature_, arguments);
    original_.callBoxed(op, keys, stack);
    watch.finish(stack->data() + stack->size() - signature_.returns);
  }

 private:
  Signature signature_;
  Original original_;
};

class HostAccessKernel final : public c10::OperatorKernel {
 public:
  HostAccessKernel(const c10::OperatorHandle& op, Original original)
      : signature_(op), original_(std::move(original)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const c10::IValue* arguments = stack->data() + stack->size() - signature_.arguments;
    for (std::size_t i = 0; i < signature_.arguments; ++i)
      if (arguments[i].isTensor())
        host_access(signature_.name.c_str(), arguments[i].toTensor(), signature_.written[i]);
    original_.callBoxed(op, keys, stack);
  }

 private:
  Signature signature_;
  Original original_;
};

}  // namespace

Kernel watched_kernel(const c10::OperatorHandle& op, Original original) {
  return c10::KernelFunction::makeFromBoxedFunctor(
      std::make_unique<WatchedKernel>(op, std::move(original)));
}
Kernel host_kernel(const c10::OperatorHandle& op, Original original) {
  return c10::KernelFunction::makeFromBoxedFunctor(
      std::make_unique<HostAccessKernel>(op, std::move(original)));
}

}  // namespace tidemark::numbers
