// math: numbers beside CUDA's own host code.
#include <ATen/core/LegacyTypeDispatch.h>

#include <algorithm>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>

#include "harness/virtual/numbers/alias.h"
#include "harness/virtual/numbers/device_calls.h"
#include "harness/virtual/numbers/frame.h"
#include "harness/virtual/numbers/kernels.h"
#include "harness/virtual/numbers/signature.h"
#include "harness/virtual/numbers/watch.h"

namespace tidemark::numbers {
namespace {
using torch::jit::Stack;

// The CPU kernel sees no autograd and no autocast, whatever the caller has switched on.
struct Plain {
  at::AutoDispatchBelowADInplaceOrView below_autograd;
  c10::impl::ExcludeDispatchKeyGuard no_autocast{
      c10::DispatchKeySet(c10::DispatchKey::AutocastCPU)};
};

struct Use {
  std::string name;
  std::atomic<bool> used{false};
};
struct Uses {
  std::mutex mutex;
  std::list<std::shared_ptr<Use>> all;
};
Uses& uses() {
  static auto* one = new Uses;
  return *one;
}
std::shared_ptr<Use> new_use(const std::string& name) {
  auto use = std::make_shared<Use>(name);
  const std::lock_guard lock(uses().mutex);
  uses().all.push_back(use);
  return use;
}

void add_context(c10::Error& error, const Signature& signature) {
  error.add_context("while computing the numbers of " + signature.name +
                    " on the host (mode math)");
}

// Not the error of a program, as an index out of range is.
bool is_missing(const c10::Error& error) {
  return dynamic_cast<const c10::NotImplementedError*>(&error) ||
         error.msg().find("INTERNAL ASSERT FAILED") != std::string::npos;
}

class MathKernel final : public c10::OperatorKernel {
 public:
  MathKernel(const c10::OperatorHandle& op, Original original, const Keeping* keeping)
      : signature_(op),
        original_(std::move(original)),
        keeping_(keeping),
        compose_(composition(signature_.name)),
        counts_(counts(signature_.name)),
        inner_values_(reads_inner_values(signature_.name)),
        is_copy_(signature_.name == "aten::copy_"),
        of_pytorch_(signature_.name.starts_with("aten::")),
        draws_(signature_.generator >= 0 || draws_silently(signature_.name)),
        use_(new_use(signature_.name)) {}

  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    if (outer) return nested(op, keys, stack);
    Bracket bracket(signature_.name.c_str());
    const std::vector<c10::IValue> arguments(
        stack->end() - static_cast<std::ptrdiff_t>(signature_.arguments), stack->end());
    Watch watch(signature_, arguments.data());
    bracket.bytes = signature_.argument_bytes(arguments.data());
    RandomState random;
    if (draws_)
      random = random_state(signature_.generator >= 0
                                ? arguments[static_cast<std::size_t>(signature_.generator)]
                                : c10::IValue(),
                            device_of(arguments));
    {
      std::optional<AnswerReads> answer;
      if (counts_) answer.emplace(count(op, arguments));
      SuspendData suspended;
      AcceptUnknown accepted(is_copy_);
      Frame frame{signature_, arguments, counts_ || signature_.host_values || is_copy_};
      if (!of_pytorch_) frame.result_size = [&] { return result_size(op, arguments); };
      Inside inside(inner_values_ ? nullptr : &frame);
      original_.callBoxed(op, keys, stack);
    }
    const std::vector<c10::IValue> outputs(
        stack->end() - static_cast<std::ptrdiff_t>(signature_.returns), stack->end());
    bracket.bytes += signature_.result_bytes(outputs.data());
    watch.finish(outputs.data());
    Stack host;
    host.reserve(std::max(signature_.arguments, signature_.returns));
    for (const c10::IValue& value : arguments) host.push_back(host_alias(value));
    if (signature_.generator >= 0)
      host[static_cast<std::size_t>(signature_.generator)] = cpu_generator(random);
    if (keeping_ && !keeping_->admits(outputs)) return;
    if (!compute(op, host, outputs, random)) return keeping_->gave_up();
    for (std::size_t i = 0; i < signature_.returns; ++i)
      if (is_host_value(host[i]))
        *(stack->end() - static_cast<std::ptrdiff_t>(signature_.returns - i)) = host[i];
  }

 private:
  // The caller gets the result of the CPU kernel, because the CUDA host code had no values to read.
  static bool is_host_value(const c10::IValue& value) {
    return !value.isNone() && !value.isTensor() && !value.isTensorList() &&
           !value.isOptionalTensorList();
  }

  void nested(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    std::optional<AnswerReads> answer;
    const c10::IValue* arguments = stack->data() + stack->size() - signature_.arguments;
    if (counts_ && !outer->counts) {
      const bool known = outer->knows(arguments[0].toTensor());
      TORCH_CHECK(known || outer->result_size, outer->signature.name,
                  " has no numbers for these arguments: its CUDA host code counts what only a "
                  "kernel computes");
      const std::vector<c10::IValue> own(arguments, arguments + signature_.arguments);
      answer.emplace(known ? count(op, own) : outer->result_size());
    }
    if (is_copy_ && arguments[0].toTensor().is_cpu() && arguments[1].toTensor().is_cuda())
      return nested_read(op, keys, stack);
    original_.callBoxed(op, keys, stack);
  }

  // The outer operator's host code copies a tensor to the host to look at it.
  void nested_read(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const at::Tensor from = stack->end()[-2].toTensor();
    TORCH_CHECK(outer->knows(from) || outer->counts, outer->signature.name,
                " has no numbers for these arguments: its CUDA host code reads a tensor that only "
                "a kernel computes");
    AcceptUnknown accepted;
    original_.callBoxed(op, keys, stack);
    Plain plain;
    if (outer->knows(from)) stack->back().toTensor().copy_(host_alias(from));
  }

  // For an operator that changes none of its arguments: the CPU kernel can run once more.
  std::int64_t result_size(const c10::OperatorHandle& op,
                           const std::vector<c10::IValue>& arguments) const {
    const bool reads_only = std::find(signature_.written.begin(), signature_.written.end(), true) ==
                            signature_.written.end();
    TORCH_CHECK(reads_only && signature_.returns == 1, signature_.name,
                " has no numbers for these arguments: its CUDA host code counts what only a "
                "kernel computes");
    Plain plain;
    Stack host;
    for (const c10::IValue& value : arguments) host.push_back(host_alias(value));
    HostCall call{op, host, {}, {}};
    run_cpu_kernel(call);
    TORCH_CHECK(host[0].isTensor() && host[0].toTensor().dim() > 0, signature_.name,
                " has no numbers for these arguments: the size of its result is not known");
    return host[0].toTensor().size(0);
  }

  std::int64_t count(const c10::OperatorHandle& op,
                     const std::vector<c10::IValue>& arguments) const {
    Plain plain;
    Stack host;
    for (const c10::IValue& value : arguments) host.push_back(host_alias(value));
    return count_on_host(op, std::move(host));
  }

  static c10::DeviceIndex device_of(const std::vector<c10::IValue>& arguments) {
    for (const c10::IValue& value : arguments)
      if (value.isTensor() && value.toTensor().defined() && value.toTensor().is_cuda())
        return value.toTensor().device().index();
    return c10::cuda::current_device();
  }

  bool compute(const c10::OperatorHandle& op, Stack& host, const std::vector<c10::IValue>& outputs,
               RandomState random) {
    try {
      Plain plain;
      HostCall call{op, host, outputs, random};
      compose_ ? compose_(call) : run_cpu_kernel(call);
      for (std::size_t i = 0; i < signature_.returns; ++i)
        if (signature_.fresh[i]) keep(outputs[i], host[i]);
      use_->used.store(true, std::memory_order_relaxed);
      return true;
    } catch (c10::Error& error) {
      if (keeping_ && is_missing(error)) return false;
      add_context(error, signature_);
      throw;
    }
  }

  void keep(const c10::IValue& output, const c10::IValue& result) const {
    if (output.isTensor() && result.isTensor()) {
      keep(output.toTensor(), result.toTensor());
    } else if (output.isTensorList() && result.isTensorList()) {
      const auto outputs = output.toTensorVector(), results = result.toTensorVector();
      TORCH_CHECK(outputs.size() == results.size(), signature_.name,
                  ": its CPU kernel gives another number of tensors");
      for (std::size_t i = 0; i < outputs.size(); ++i) keep(outputs[i], results[i]);
    }
  }
  void keep(const at::Tensor& output, const at::Tensor& result) const {
    store(output, result, signature_.name);
    if (keeping_ && output.defined() && result.defined()) keeping_->kept(output);
  }

  Signature signature_;
  Original original_;
  const Keeping* keeping_;
  HostKernel compose_;
  bool counts_, inner_values_, is_copy_, of_pytorch_, draws_;
  std::shared_ptr<Use> use_;
};

class ReadValueKernel final : public c10::OperatorKernel {
 public:
  ReadValueKernel(const c10::OperatorHandle& op, Original original)
      : signature_(op), original_(std::move(original)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    const at::Tensor tensor = stack->back().toTensor();
    Watch watch(signature_, &stack->back());
    const bool known = !outer || outer->knows(tensor);
    TORCH_CHECK(known || outer->counts, outer->signature.name,
                " has no numbers for these arguments: its CUDA host code reads a value that only a "
                "kernel computes");
    {
      SuspendData suspended;
      AcceptUnknown accepted;
      const std::vector<c10::IValue> arguments{tensor};
      const Frame frame{signature_, arguments};
      Inside inside(outer ? outer : &frame);
      original_.callBoxed(op, keys, stack);
      watch.finish(&stack->back());
    }
    if (!known) return;  // a count, answered
    Plain plain;
    stack->back() = at::_local_scalar_dense(host_alias(tensor));
  }

 private:
  Signature signature_;
  Original original_;
};

// An extension's operator without a CPU kernel: where its host code is made of PyTorch's operators,
// these compute; a kernel of its own is refused when it is launched.
class ForeignKernel final : public c10::OperatorKernel {
 public:
  ForeignKernel(const c10::OperatorHandle& op, Original original)
      : name_(c10::toString(op.operator_name())), original_(std::move(original)) {}
  void operator()(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
    device.take_refusal();
    original_.callBoxed(op, keys, stack);
    TORCH_CHECK(!device.take_refusal(), name_,
                " has no numbers on the virtual device: it launches a kernel of its own, and no "
                "CPU kernel computes it (mode math)");
  }

 private:
  std::string name_;
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

std::vector<std::string> used_operators() {
  const std::lock_guard lock(uses().mutex);
  std::vector<std::string> names;
  for (const auto& use : uses().all)
    if (use->used) names.push_back(use->name);
  return names;
}
void forget_used() {
  const std::lock_guard lock(uses().mutex);
  uses().all.clear();
}

Kernel math_kernel(const c10::OperatorHandle& op, Original original, const Keeping* keeping) {
  return c10::KernelFunction::makeFromBoxedFunctor(
      std::make_unique<MathKernel>(op, std::move(original), keeping));
}
Kernel read_value_kernel(const c10::OperatorHandle& op, Original original) {
  return c10::KernelFunction::makeFromBoxedFunctor(
      std::make_unique<ReadValueKernel>(op, std::move(original)));
}
Kernel foreign_kernel(const c10::OperatorHandle& op, Original original) {
  return c10::KernelFunction::makeFromBoxedFunctor(
      std::make_unique<ForeignKernel>(op, std::move(original)));
}
Kernel no_numbers_kernel(const c10::OperatorHandle& op, Original original) {
  return c10::KernelFunction::makeFromBoxedFunctor(
      std::make_unique<NoNumbersKernel>(op, std::move(original)));
}

}  // namespace tidemark::numbers
