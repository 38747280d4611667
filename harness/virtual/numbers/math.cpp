// math: numbers beside CUDA's own host code.
#include <ATen/core/LegacyTypeDispatch.h>

#include "harness/virtual/numbers/alias.h"
#include "harness/virtual/numbers/device_calls.h"
#include "harness/virtual/numbers/kernels.h"
#include "harness/virtual/numbers/signature.h"

namespace tidemark::numbers {
namespace {
using torch::jit::Stack;

// How deep this thread is in the host code of a CUDA operator, and of which: what that calls in
// turn is not computed.
thread_local const Signature* outer = nullptr;
struct Inside {
  explicit Inside(const Signature* signature) : before(outer) { outer = signature; }
  ~Inside() { outer = before; }
  Inside(const Inside&) = delete;
  const Signature* before;
};

// The CPU kernel sees no autograd and no autocast, whatever the caller has switched on.
struct Plain {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{
      c10::DispatchKeySet(c10::DispatchKey::AutocastCPU)};
};

void add_context(c10::Error& error, const Signature& signature) {
  error.add_context("while computing the numbers of " + signature.name +
                    " on the host (mode math)");
}

class MathKernel final : public c10::OperatorKernel {
 public:
  MathKernel(const c10::OperatorHandle& op, Original original)
      : signature_(op),
        original_(std::move(original)),
        compose_(composition(signature_.name)),
        inner_values_(reads_inner_values(signature_.name)),
        draws_(signature_.generator >= 0 || draws_silently(signature_.name)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    if (outer) return original_.callBoxed(op, keys, stack);
    Bracket bracket(signature_.name.c_str());
    const std::vector<c10::IValue> arguments(
        stack->end() - static_cast<std::ptrdiff_t>(signature_.arguments), stack->end());
    bracket.bytes = signature_.argument_bytes(arguments.data());
    RandomState random;
    if (draws_)
      random = random_state(signature_.generator >= 0
                                ? arguments[static_cast<std::size_t>(signature_.generator)]
                                : c10::IValue());
    {
      SuspendData suspended;
      Inside inside(inner_values_ ? nullptr : &signature_);
      original_.callBoxed(op, keys, stack);
    }
    const std::vector<c10::IValue> outputs(
        stack->end() - static_cast<std::ptrdiff_t>(signature_.returns), stack->end());
    bracket.bytes += signature_.result_bytes(outputs.data());
    Stack host;
    host.reserve(std::max(signature_.arguments, signature_.returns));
    for (const c10::IValue& value : arguments) host.push_back(host_alias(value));
    if (signature_.generator >= 0)
      host[static_cast<std::size_t>(signature_.generator)] = cpu_generator(random);
    compute(op, host, outputs, random);
  }

 private:
  void compute(const c10::OperatorHandle& op, Stack& host, const std::vector<c10::IValue>& outputs,
               RandomState random) {
    try {
      Plain plain;
      HostCall call{op, host, outputs, random};
      compose_ ? compose_(call) : run_cpu_kernel(call);
      for (std::size_t i = 0; i < signature_.returns; ++i)
        if (signature_.fresh[i]) keep(outputs[i], host[i]);
    } catch (c10::Error& error) {
      add_context(error, signature_);
      throw;
    }
  }

  void keep(const c10::IValue& output, const c10::IValue& result) const {
    if (output.isTensor() && result.isTensor()) {
      store(output.toTensor(), result.toTensor(), signature_.name);
    } else if (output.isTensorList() && result.isTensorList()) {
      const auto outputs = output.toTensorVector(), results = result.toTensorVector();
      TORCH_CHECK(outputs.size() == results.size(), signature_.name,
                  ": its CPU kernel gives another number of tensors");
      for (std::size_t i = 0; i < outputs.size(); ++i)
        store(outputs[i], results[i], signature_.name);
    }
  }

  Signature signature_;
  Original original_;
  HostKernel compose_;
  bool inner_values_, draws_;
};

class ReadValueKernel final : public c10::OperatorKernel {
 public:
  ReadValueKernel(const c10::OperatorHandle& op, Original original)
      : signature_(op), original_(std::move(original)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    TORCH_CHECK(!outer, outer->name,
                " has no numbers for these arguments: its CUDA host code reads a value that only "
                "a kernel computes");
    const c10::IValue argument = stack->back();
    {
      SuspendData suspended;
      Inside inside(&signature_);
      original_.callBoxed(op, keys, stack);
    }
    Plain plain;
    stack->back() = at::_local_scalar_dense(host_alias(argument.toTensor()));
  }

 private:
  Signature signature_;
  Original original_;
};

class NoNumbersKernel final : public c10::OperatorKernel {
 public:
  NoNumbersKernel(const c10::OperatorHandle& op, Original original)
      : signature_(op), original_(std::move(original)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    TORCH_CHECK(outer, signature_.name,
                " has no numbers on the virtual device: no CPU kernel computes it (mode math)");
    original_.callBoxed(op, keys, stack);
  }

 private:
  Signature signature_;
  Original original_;
};

}  // namespace

Kernel math_kernel(const c10::OperatorHandle& op, Original original) {
  return c10::KernelFunction::makeFromBoxedFunctor(
      std::make_unique<MathKernel>(op, std::move(original)));
}
Kernel read_value_kernel(const c10::OperatorHandle& op, Original original) {
  return c10::KernelFunction::makeFromBoxedFunctor(
      std::make_unique<ReadValueKernel>(op, std::move(original)));
}
Kernel no_numbers_kernel(const c10::OperatorHandle& op, Original original) {
  return c10::KernelFunction::makeFromBoxedFunctor(
      std::make_unique<NoNumbersKernel>(op, std::move(original)));
}

}  // namespace tidemark::numbers
