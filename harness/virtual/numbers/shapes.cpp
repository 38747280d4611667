// shapes and cost: no numbers, and reading one is refused.
#include <limits>

#include "harness/virtual/numbers/device_calls.h"
#include "harness/virtual/numbers/kernels.h"
#include "harness/virtual/numbers/signature.h"
#include "harness/virtual/numbers/watch.h"

namespace tidemark::numbers {
namespace {
using torch::jit::Stack;
constexpr double no_value = std::numeric_limits<double>::quiet_NaN();

class NeedsValuesKernel final : public c10::OperatorKernel {
 public:
  explicit NeedsValuesKernel(const c10::OperatorHandle& op)
      : name_(c10::toString(op.operator_name())) {}
  void operator()(const c10::OperatorHandle&, c10::DispatchKeySet, Stack*) {
    TORCH_CHECK(false, name_, " depends on values that this mode does not compute; mode math may");
  }

 private:
  std::string name_;
};

class NoValueKernel final : public c10::OperatorKernel {
 public:
  NoValueKernel(const c10::OperatorHandle& op, Original original)
      : signature_(op), original_(std::move(original)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const at::ScalarType type = stack->back().toTensor().scalar_type();
    {
      Watch watch(signature_, &stack->back());
      AcceptUnknown accepted;
      original_.callBoxed(op, keys, stack);
      watch.finish(&stack->back());
    }
    TORCH_CHECK(at::isFloatingType(type) || at::isComplexType(type), "a value of type ", type,
                " is read on the host (item), and in shapes there is none: run it in math");
    stack->back() = at::isComplexType(type) ? at::Scalar(c10::complex<double>(no_value, no_value))
                                            : at::Scalar(no_value);
  }

 private:
  Signature signature_;
  Original original_;
};

class CopyKernel final : public c10::OperatorKernel {
 public:
  explicit CopyKernel(Original original) : original_(std::move(original)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const at::Tensor &to = stack->end()[-3].toTensor(), &from = stack->end()[-2].toTensor();
    const bool read = to.is_cpu() && from.is_cuda() && from.numel() > 0;
    const at::ScalarType type = from.scalar_type();
    TORCH_CHECK(
        !read || at::isFloatingType(type) || at::isComplexType(type) || device.accepts_unknown(),
        "a tensor of type ", type,
        " is copied to the host, and in shapes it has no values: run it in math, or with "
        "TIDEMARK_UNKNOWN=nan where nothing looks at them");
    AcceptUnknown accepted(read);
    original_.callBoxed(op, keys, stack);
  }

 private:
  Original original_;
};

class CostKernel final : public c10::OperatorKernel {
 public:
  CostKernel(const c10::OperatorHandle& op, Original original)
      : signature_(op), original_(std::move(original)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    Bracket bracket(signature_.name.c_str());
    const c10::IValue* arguments = stack->data() + stack->size() - signature_.arguments;
    Stack held;  // as in math: several out tensors come back as references that nothing else holds
    if (signature_.returns > 1) held.assign(arguments, arguments + signature_.arguments);
    bracket.bytes = signature_.argument_bytes(arguments);
    Watch watch(signature_, arguments);
    original_.callBoxed(op, keys, stack);
    watch.finish(stack->data() + stack->size() - signature_.returns);
    bracket.bytes += signature_.result_bytes(stack->data() + stack->size() - signature_.returns);
  }

 private:
  Signature signature_;
  Original original_;
};

}  // namespace

Kernel needs_values_kernel(const c10::OperatorHandle& op) {
  return c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<NeedsValuesKernel>(op));
}
Kernel no_value_kernel(const c10::OperatorHandle& op, Original original) {
  return c10::KernelFunction::makeFromBoxedFunctor(
      std::make_unique<NoValueKernel>(op, std::move(original)));
}
Kernel copy_kernel(const c10::OperatorHandle&, Original original) {
  return c10::KernelFunction::makeFromBoxedFunctor(
      std::make_unique<CopyKernel>(std::move(original)));
}
Kernel cost_kernel(const c10::OperatorHandle& op, Original original) {
  return c10::KernelFunction::makeFromBoxedFunctor(
      std::make_unique<CostKernel>(op, std::move(original)));
}

}  // namespace tidemark::numbers
