// The kernels that stand before CUDA's own in the dispatcher, one class a purpose.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "harness/virtual/operators/operators.h"
#include "harness/virtual/operators/torch_versions.h"

namespace tidemark::operators {

/// PyTorch warns, once, that a kernel is replaced; here that is the purpose.
struct Quiet final : c10::WarningHandler {
  void process(const c10::Warning&) override {}
};

/// One call of an operator, as the dispatcher makes it.
struct Invocation {
  const c10::OperatorHandle& op;
  c10::DispatchKeySet keys;
  torch::jit::Stack* stack;

  template <class AnyKernel>
  void run(const AnyKernel& kernel) const {
    kernel.callBoxed(op, keys, stack);
  }
  /// The arguments before it is run, the results after it.
  const c10::IValue* last(std::size_t count) const { return stack->data() + stack->size() - count; }
  std::vector<c10::IValue> values(std::size_t count) const {
    return std::vector<c10::IValue>(last(count), last(0));
  }
};

template <class Body>
class Boxed final : public c10::OperatorKernel {
 public:
  explicit Boxed(Body body) : body_(std::move(body)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys,
                  torch::jit::Stack* stack) {
    body_(Invocation{op, keys, stack});
  }

 private:
  Body body_;
};

/// A kernel that gives each call to `body`.
template <class Body>
Kernel boxed(Body body) {
  return c10::KernelFunction::makeFromBoxedFunctor(std::make_unique<Boxed<Body>>(std::move(body)));
}

/// True if the CPU lacks this form of an operator, rather than that a program errs, as with an
/// index out of range.
inline bool is_missing(const c10::Error& error) {
  return dynamic_cast<const c10::NotImplementedError*>(&error) ||
         error.msg().find("INTERNAL ASSERT FAILED") != std::string::npos;
}

/// The results to compute, if not all of them, and the function that is told of each.
struct Keeping {
  bool (*admits)(const std::vector<c10::IValue>& outputs);
  void (*kept)(const at::Tensor& output);  // a fresh one that has its values now
  void (*gave_up)();  // the CPU kernel does not have this form of the operator: nothing has values
};
/// math: the original, then numbers on the host.
Kernel math_kernel(const c10::OperatorHandle& op, Original original,
                   const Keeping* keeping = nullptr);
/// math: item() reads the memory itself, after the original's synchronisation.
Kernel read_value_kernel(const c10::OperatorHandle& op, Original original);
/// math: an error that names the operator, except inside the host code of another, whose numbers
/// come from elsewhere.
Kernel no_numbers_kernel(const c10::OperatorHandle& op, Original original);

/// math: the original of an extension's operator that has no CPU kernel; an error that names the
/// operator where it launches a kernel of its own.
Kernel foreign_kernel(const c10::OperatorHandle& op, Original original);

/// math: symm_mem::_async_input_mm, a product that waits on the device for the signals of its first
/// operand's chunks. The original now, and the numbers when the signals are set.
Kernel signalled_matmul_kernel(const c10::OperatorHandle& op, Original original);

/// known: as math where everything that the operator reads is known and its results are within the
/// limit; else the original, and what it writes is unknown. Without `computes` always the latter.
Kernel known_kernel(const c10::OperatorHandle& op, const std::function<Original()>& original,
                    bool computes);
/// known: resize_, by which a known tensor stays known.
Kernel known_resize_kernel(const std::function<Original()>& original);
/// known: view.dtype, by which floats are read as bytes (origins.h).
Kernel known_bytes_kernel(const std::function<Original()>& original);
/// known: item() of an unknown value is a policy.
Kernel known_read_kernel(const c10::OperatorHandle& op, const std::function<Original()>& original);

/// shapes: an error that names the operator, which needs values.
Kernel needs_values_kernel(const c10::OperatorHandle& op);
/// The kernel of an operator that looks whether a decomposition failed: one has not whose values
/// are not computed, or not yet.
Kernel succeeds_kernel(Original original);
/// Inside of one: whether a copy to the host of `from` asks that. It is then told no error.
bool asks_for_error(const at::Tensor& to, const at::Tensor& from);
void tell_no_error(const Invocation& copy, const Original& original);
/// shapes: the synchronisation of item(), then NaN; for integers and booleans an error.
Kernel no_value_kernel(const c10::OperatorHandle& op, Original original);
/// shapes: copy_, which brings floating-point tensors to the host without values (NaN) and refuses
/// all others.
Kernel copy_kernel(Original original);
/// cost: the original, bracketed with the bytes of its tensors.
Kernel cost_kernel(const c10::OperatorHandle& op, Original original);

/// `kernel`, for operators with a scalar that may be above 2^63 - 1, which the stack cannot hold:
/// so that they take and give it all the same.
Kernel with_unsigned(const c10::OperatorHandle& op, Kernel kernel);

/// shapes: the original, watched for races.
Kernel watched_kernel(const c10::OperatorHandle& op, Original original);
/// A CPU operator whose tensors the device may be using.
Kernel host_kernel(const c10::OperatorHandle& op, Original original);

/// math: the operators whose numbers have been computed since the mode was entered; forget_used()
/// empties it.
std::vector<std::string> used_operators();
void forget_used();

}  // namespace tidemark::operators
