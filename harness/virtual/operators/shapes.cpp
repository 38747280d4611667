// shapes and cost: no numbers, and reading one is refused. With race detection the originals are
// watched, and the few CPU operators through which the host reads and writes pinned memory.
#include <limits>

#include "harness/virtual/operators/device_calls.h"
#include "harness/virtual/operators/frame.h"
#include "harness/virtual/operators/kernels.h"
#include "harness/virtual/operators/plain.h"
#include "harness/virtual/operators/signature.h"
#include "harness/virtual/operators/watch.h"

namespace tidemark::operators {
namespace {
constexpr double no_value = std::numeric_limits<double>::quiet_NaN();

/// The original, watched for races.
struct Watched {
  Watched(const c10::OperatorHandle& op, Original of) : signature(op), original(std::move(of)) {}
  void operator()(const Invocation& call) const {
    const c10::IValue* arguments = call.last(signature.arguments);
    torch::jit::Stack kept_arguments;  // as in math: several out tensors come back as references
                                       // that nothing else holds
    if (signature.returns > 1) kept_arguments.assign(arguments, arguments + signature.arguments);
    Watch watch(signature, arguments);
    call.run(original);
    watch.finish(call.last(signature.returns));
  }

  Signature signature;
  Original original;
};

}  // namespace

bool asks_for_error(const at::Tensor& to, const at::Tensor& from) {
  return asks_for_errors && to.is_cpu() && from.is_cuda() &&
         at::isIntegralType(from.scalar_type(), /*includeBool=*/true);
}

void tell_no_error(const Invocation& copy, const Original& original) {
  const at::Tensor to = copy.last(3)->toTensor();
  {
    SuspendData suspended;
    AcceptUnknown accepted;
    copy.run(original);
  }
  Plain plain;
  to.zero_();
}

Kernel succeeds_kernel(Original original) {
  return boxed([original = std::move(original)](const Invocation& call) {
    struct Asking {
      const bool before = std::exchange(asks_for_errors, true);
      ~Asking() { asks_for_errors = before; }
    } const asking;
    call.run(original);
  });
}

Kernel needs_values_kernel(const c10::OperatorHandle& op) {
  return boxed([name = c10::toString(op.operator_name())](const Invocation&) {
    TORCH_CHECK(false, name, " depends on values that this mode does not compute; mode math may");
  });
}

Kernel no_value_kernel(const c10::OperatorHandle& op, Original original) {
  return boxed([signature = Signature(op), original = std::move(original)](const Invocation& call) {
    const at::ScalarType type = call.stack->back().toTensor().scalar_type();
    {
      Watch watch(signature, call.last(1));
      AcceptUnknown accepted;
      call.run(original);
      watch.finish(call.last(1));
    }
    if (asks_for_errors && type == at::kBool) {
      call.stack->back() = false;
      return;
    }
    TORCH_CHECK(at::isFloatingType(type) || at::isComplexType(type), "a value of type ", type,
                " is read on the host (item), and in shapes there is none: run it in math");
    call.stack->back() = at::isComplexType(type)
                             ? at::Scalar(c10::complex<double>(no_value, no_value))
                             : at::Scalar(no_value);
  });
}

Kernel copy_kernel(Original original) {
  return boxed([original = std::move(original)](const Invocation& call) {
    const at::Tensor &to = call.last(3)->toTensor(), &from = call.last(2)->toTensor();
    const bool read = to.is_cpu() && from.is_cuda() && from.numel() > 0;
    if (asks_for_error(to, from)) return tell_no_error(call, original);
    const at::ScalarType type = from.scalar_type();
    TORCH_CHECK(
        !read || at::isFloatingType(type) || at::isComplexType(type) || device.accepts_unknown(),
        "a tensor of type ", type,
        " is copied to the host, and in shapes it has no values: run it in math, or with "
        "TIDEMARK_UNKNOWN=nan where nothing looks at them");
    AcceptUnknown accepted(read);
    call.run(original);
  });
}

Kernel cost_kernel(const c10::OperatorHandle& op, Original original) {
  return boxed([watched = Watched(op, std::move(original))](const Invocation& call) {
    const Signature& signature = watched.signature;
    Bracket bracket(signature.name.c_str());
    bracket.bytes = signature.argument_bytes(call.last(signature.arguments));
    watched(call);
    bracket.bytes += signature.result_bytes(call.last(signature.returns));
  });
}

Kernel watched_kernel(const c10::OperatorHandle& op, Original original) {
  return boxed(Watched(op, std::move(original)));
}

Kernel host_kernel(const c10::OperatorHandle& op, Original original) {
  return boxed([signature = Signature(op), original = std::move(original)](const Invocation& call) {
    const c10::IValue* arguments = call.last(signature.arguments);
    for (std::size_t i = 0; i < signature.arguments; ++i)
      if (arguments[i].isTensor())
        host_access(signature.name.c_str(), arguments[i].toTensor(), signature.written[i]);
    call.run(original);
  });
}

}  // namespace tidemark::operators
