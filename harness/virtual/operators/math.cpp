// math: numbers beside CUDA's own host code.
#include <algorithm>
#include <atomic>
#include <list>
#include <memory>
#include <mutex>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/operators/alias.h"
#include "harness/virtual/operators/device_calls.h"
#include "harness/virtual/operators/frame.h"
#include "harness/virtual/operators/kernels.h"
#include "harness/virtual/operators/plain.h"
#include "harness/virtual/operators/recorded.h"
#include "harness/virtual/operators/refusal.h"
#include "harness/virtual/operators/signature.h"
#include "harness/virtual/operators/sparse_product.h"
#include "harness/virtual/operators/watch.h"

namespace tidemark::operators {
namespace {
using torch::jit::Stack;

struct Use {
  std::string name;
  std::atomic<bool> used{false};
};
struct Uses {
  std::mutex mutex;
  std::list<std::shared_ptr<Use>> all;
};
Uses& uses() { return device::immortal<Uses>(); }
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

Stack host_aliases(const std::vector<c10::IValue>& arguments) {
  Stack host;
  for (const c10::IValue& value : arguments) host.push_back(host_alias(value));
  return host;
}

class MathKernel {
 public:
  MathKernel(const c10::OperatorHandle& op, Original original, const Keeping* keeping)
      : signature_(op),
        original_(std::move(original)),
        keeping_(keeping),
        compose_(composition(signature_.name)),
        counts_(counts(signature_.name)),
        whatever_(reads_whatever(signature_.name)),
        inner_values_(reads_inner_values(signature_.name)),
        is_copy_(signature_.name == "aten::copy_"),
        of_pytorch_(signature_.name.starts_with("aten::")),
        draws_(signature_.generator >= 0 || draws_silently(signature_.name)),
        use_(new_use(signature_.name)) {}

  void operator()(const Invocation& invocation) {
    if (made_of_operators(signature_.name, invocation.last(signature_.arguments)))
      return invocation.run(original_);
    if (outer) return nested(invocation);
    run(invocation);
  }

 private:
  /// True if its results have values now.
  bool run(const Invocation& invocation, bool gives_up = false) {
    const c10::OperatorHandle& op = invocation.op;
    Stack* const stack = invocation.stack;
    const std::vector<c10::IValue> arguments = invocation.values(signature_.arguments);
    await_collectives(arguments);
    Bracket bracket(signature_.name.c_str());
    Watch watch(signature_, arguments.data());
    bracket.bytes = signature_.argument_bytes(arguments.data());
    const bool captured = is_captured(arguments);
    // The host code of an operator on sparse tensors may exchange their parts.
    Stack sparse;
    for (const c10::IValue& value : arguments)
      sparse.push_back(value.isTensor() && is_sparse(value.toTensor()) ? host_alias(value)
                                                                       : c10::IValue());
    RandomState random;
    std::optional<CapturedRandom> random_at_launch;
    if (draws_) {
      const c10::IValue generator = signature_.generator_of(arguments);
      if (captured)
        random_at_launch = captured_random(generator, device_of(arguments));
      else
        random = random_state(generator, device_of(arguments));
    }
    {
      std::optional<AnswerReads> answer;
      std::optional<AnswerProduct> product;
      if (counts_) answer.emplace(count(op, arguments));
      if (const auto factors = factors_of(signature_.name, arguments)) {
        Plain plain;
        product.emplace(product_of(*factors));
      }
      if (whatever_) answer.emplace(1, true);
      SuspendData suspended;
      AcceptUnknown accepted(is_copy_);
      Frame frame{signature_, arguments, counts_ || product || signature_.host_values || is_copy_,
                  product.has_value()};
      if (!of_pytorch_) frame.result_size = [&] { return result_size(op, arguments); };
      frame.of_extension = !of_pytorch_ && !counts_ && !captured;
      frame.note_computed();
      Inside inside(inner_values_ ? nullptr : &frame);
      invocation.run(original_);
    }
    const std::vector<c10::IValue> outputs = invocation.values(signature_.returns);
    bracket.bytes += signature_.result_bytes(outputs.data());
    watch.finish(outputs.data());
    if (captured) {
      auto recorded = std::make_unique<Recorded>(op, signature_, compose_, arguments, outputs,
                                                 random_at_launch);
      if (!Recorded::keep(recorded)) recorded->launch();
      return false;
    }
    Stack host;
    for (std::size_t i = 0; i < arguments.size(); ++i)
      host.push_back(sparse[i].isNone() ? host_alias(arguments[i]) : sparse[i]);
    if (signature_.generator >= 0)
      host[static_cast<std::size_t>(signature_.generator)] = cpu_generator(random);
    if (keeping_ && !keeping_->admits(outputs)) return false;
    if (!compute(op, host, arguments, sparse, outputs, random, gives_up)) {
      if (keeping_) keeping_->gave_up();
      return false;
    }
    for (std::size_t i = 0; i < signature_.returns; ++i)
      if (is_host_value(host[i]))
        *(stack->end() - static_cast<std::ptrdiff_t>(signature_.returns - i)) = host[i];
    return true;
  }

  // The caller gets the result of the CPU kernel, because the CUDA host code had no values to read.
  static bool is_host_value(const c10::IValue& value) {
    return !value.isNone() && !value.isTensor() && !value.isTensorList() &&
           !value.isOptionalTensorList();
  }

  // True if the call writes to an argument of the outer operator. That operator's CPU kernel writes
  // to it, once.
  bool changes_argument(const Invocation& call) const {
    const c10::IValue* arguments = call.last(signature_.arguments);
    for (std::size_t i = 0; i < signature_.arguments; ++i)
      if (signature_.written[i] &&
          !all_tensors(arguments[i], [](const at::Tensor& one) { return !outer->knows(one); }))
        return true;
    return false;
  }

  void nested(const Invocation& call) {
    if (outer->computes_inside() && !changes_argument(call)) {
      const Frame& frame = *outer;
      const Inside alone(nullptr);
      if (run(call, true)) frame.note_computed();
      return;
    }
    std::optional<AnswerReads> answer;
    const c10::IValue* arguments = call.last(signature_.arguments);
    if (counts_ && (!outer->counts || outer->is_product)) {
      const bool known = outer->knows(arguments[0].toTensor());
      if (!known && !outer->result_size)
        refuse<c10::Error>(
            outer->signature.name,
            " has no numbers for these arguments: its CUDA host code counts what only a "
            "kernel computes");
      answer.emplace(known ? count(call.op, call.values(signature_.arguments))
                           : outer->result_size());
    }
    if (is_copy_ && arguments[0].toTensor().is_cpu() && arguments[1].toTensor().is_cuda())
      return nested_read(call);
    call.run(original_);
  }

  // The outer operator's host code copies a tensor to the host to look at it.
  void nested_read(const Invocation& call) {
    const at::Tensor from = call.last(2)->toTensor();
    if (!outer->knows(from) && asks_for_error(call.last(3)->toTensor(), from))
      return tell_no_error(call, original_);
    if (!outer->knows(from) && !outer->counts)
      refuse<c10::Error>(
          outer->signature.name,
          " has no numbers for these arguments: its CUDA host code reads a tensor that only "
          "a kernel computes");
    AcceptUnknown accepted;
    call.run(original_);
    Plain plain;
    if (outer->knows(from)) call.stack->back().toTensor().copy_(host_alias(from));
  }

  // For an operator that changes none of its arguments: the CPU kernel can run once more.
  std::int64_t result_size(const c10::OperatorHandle& op,
                           const std::vector<c10::IValue>& arguments) const {
    const bool reads_only = std::find(signature_.written.begin(), signature_.written.end(), true) ==
                            signature_.written.end();
    if (!reads_only || signature_.returns != 1)
      refuse<c10::Error>(
          signature_.name,
          " has no numbers for these arguments: its CUDA host code counts what only a "
          "kernel computes");
    Plain plain;
    Stack host = host_aliases(arguments);
    HostCall call{op, host, {}, {}};
    run_cpu_kernel(call);
    if (!host[0].isTensor() || host[0].toTensor().dim() == 0)
      refuse<c10::Error>(
          signature_.name,
          " has no numbers for these arguments: the size of its result is not known");
    return host[0].toTensor().size(0);
  }

  std::int64_t count(const c10::OperatorHandle& op,
                     const std::vector<c10::IValue>& arguments) const {
    Plain plain;
    return count_on_host(op, host_aliases(arguments));
  }

  bool compute(const c10::OperatorHandle& op, Stack& host,
               const std::vector<c10::IValue>& arguments, const Stack& sparse,
               const std::vector<c10::IValue>& outputs, RandomState random, bool gives_up) {
    try {
      Plain plain;
      HostCall call{op, host, outputs, random};
      run_host_kernel(call, compose_);
      for (std::size_t i = 0; i < signature_.returns; ++i)
        if (signature_.fresh[i]) keep(outputs[i], host[i]);
      for (std::size_t i = 0; i < sparse.size(); ++i)
        if (signature_.written[i] && !sparse[i].isNone())
          store(arguments[i], sparse[i], signature_.name);
      use_->used.store(true, std::memory_order_relaxed);
      return true;
    } catch (c10::Error& error) {
      if ((keeping_ || gives_up) && is_missing(error)) return false;
      add_context(error, signature_);
      throw;
    }
  }

  void keep(const c10::IValue& output, const c10::IValue& result) const {
    store(output, result, signature_.name);
    const bool undefined = result.isTensor() && !result.toTensor().defined();
    if (keeping_ && !result.isNone() && !undefined) each_tensor(output, keeping_->kept);
  }

  Signature signature_;
  Original original_;
  const Keeping* keeping_;
  HostKernel compose_;
  bool counts_, whatever_, inner_values_, is_copy_, of_pytorch_, draws_;
  std::shared_ptr<Use> use_;
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
  return boxed(MathKernel(op, std::move(original), keeping));
}

Kernel read_value_kernel(const c10::OperatorHandle& op, Original original) {
  return boxed([signature = Signature(op), original = std::move(original)](const Invocation& call) {
    const at::Tensor tensor = call.stack->back().toTensor();
    Watch watch(signature, call.last(1));
    const bool computed = outer && outer->computes_inside();
    const bool known = !outer || computed || outer->knows(tensor);
    const bool no_error = asks_for_errors && tensor.scalar_type() == at::kBool;
    if (!known && !outer->counts && !no_error)
      refuse<c10::Error>(
          outer->signature.name,
          " has no numbers for these arguments: its CUDA host code reads a value that only a "
          "kernel computes");
    {
      SuspendData suspended;
      AcceptUnknown accepted;
      const std::vector<c10::IValue> arguments{tensor};
      const Frame frame{signature, arguments};
      Inside inside(outer ? outer : &frame);
      call.run(original);
      watch.finish(call.last(1));
    }
    if (computed) outer->note_computed();
    if (!known && no_error) call.stack->back() = false;
    if (!known) return;  // answered
    Plain plain;
    call.stack->back() = at::_local_scalar_dense(host_alias(tensor));
  });
}

// If the operator's host code is made of PyTorch's operators, these compute; a kernel of its own is
// refused when it is launched.
Kernel foreign_kernel(const c10::OperatorHandle& op, Original original) {
  return boxed([name = c10::toString(op.operator_name()),
                original = std::move(original)](const Invocation& call) {
    device.take_refusal();
    call.run(original);
    if (device.take_refusal())
      refuse<c10::Error>(
          name,
          " has no numbers on the virtual device: it launches a kernel of its own, and no "
          "CPU kernel computes it (mode math)");
  });
}

Kernel no_numbers_kernel(const c10::OperatorHandle& op, Original original) {
  return boxed([name = c10::toString(op.operator_name()),
                original = std::move(original)](const Invocation& call) {
    if (!outer)
      refuse<c10::Error>(
          name, " has no numbers on the virtual device: no CPU kernel computes it (mode math)");
    call.run(original);
  });
}

}  // namespace tidemark::operators
