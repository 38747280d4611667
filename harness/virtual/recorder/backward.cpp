#include "harness/virtual/recorder/backward.h"

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/functions/accumulate_grad.h>

#include <algorithm>
#include <deque>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/operators/device_calls.h"
#include "harness/virtual/recorder/recording.h"

namespace tidemark::recorder {
namespace {

constexpr const char* kAccumulate = "torch::autograd::AccumulateGrad";

struct Numbered {
  Number number = 0;
  bool has_place = false;  // of a forward
};
thread_local Numbered node_here;
thread_local Number module_here = 0;

// The node that this thread ran last.
struct Ran {
  const torch::autograd::Node* node = nullptr;
  Numbered numbered;
};
thread_local Ran ran;

// The instruction of Python that made this thread's last node.
thread_local StackFrame last_made;

// The instructions that call a torch.autograd.Function, the innermost last, until the thread is
// seen elsewhere.
thread_local std::vector<StackFrame> functions;

void leave_functions(const PythonStacks& stacks) {
  while (!functions.empty() && !stacks.is_below(functions.back())) functions.pop_back();
}

// In Python's part of a Function, its forward: the thread is below the instruction that called it.
bool in_function(const PythonStacks& stacks) {
  leave_functions(stacks);
  return !functions.empty() && functions.back() != stacks.innermost();
}

// The place of every node that a thread has made, in the order of their sequence numbers: a new
// row where it differs from the one before.
struct Forward {
  std::int64_t sequence;
  Number stack, module, within;  // within: the node that ran
  bool is_at(const Forward& other) const {
    return std::tie(stack, module, within) == std::tie(other.stack, other.module, other.within);
  }
};
using Forwards = std::deque<Forward>;
constexpr std::size_t kForwards = 1 << 18;  // of a thread; places of older nodes are not known

// Guarded by State::mutex.
std::unordered_map<std::uint64_t, Forwards>& forwards() {
  return device::immortal<std::unordered_map<std::uint64_t, Forwards>>();
}

void note_node(std::uint64_t sequence, int of_function) {
  State* state = recording();
  if (state == nullptr || !state->history) return;
  const std::lock_guard lock(state->mutex);
  const Number stack = state->stacks().now();
  last_made = state->stacks().innermost();
  if (of_function != 0 && stack != 0) {
    leave_functions(state->stacks());
    if (functions.empty() || functions.back() != last_made) functions.push_back(last_made);
  }
  Forwards& rows = forwards()[at::RecordFunction::currentThreadId()];
  const Forward row{static_cast<std::int64_t>(sequence), stack, module_here, node_now()};
  if (!rows.empty() && rows.back().is_at(row)) return;
  rows.push_back(row);
  if (rows.size() > kForwards) rows.pop_front();
}

Numbered node_of(State& state, const at::RecordFunction& call) {
  const std::lock_guard lock(state.mutex);
  Forward made{};
  const auto thread = forwards().find(call.forwardThreadId());
  if (thread != forwards().end()) {
    const Forwards& rows = thread->second;
    const auto after = std::ranges::upper_bound(rows, call.seqNr(), {}, &Forward::sequence);
    if (call.seqNr() >= 0 && after != rows.begin()) made = *std::prev(after);
  }
  return {state.names().node(call.name(), made.stack, made.module, made.within),
          made.stack != 0 || made.within != 0};
}

struct Before : at::ObserverContext {
  Numbered outer = node_here;
  Ran own;
};

std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction& call) {
  State* state = recording();
  if (state == nullptr || !state->history) return nullptr;
  auto before = std::make_unique<Before>();
  node_here = node_of(*state, call);
  before->own = ran = {torch::autograd::get_current_node().get(), node_here};
  return before;
}

// A gradient that autograd leaves at a leaf. Those have no name that are no parameters of the
// program, or not yet: FSDP's gathered ones.
void label_gradient(State& state) {
  const auto node = torch::autograd::get_current_node();
  const auto* accumulate = dynamic_cast<const torch::autograd::AccumulateGrad*>(node.get());
  if (accumulate == nullptr) return;
  const auto memory = [](const at::Tensor& tensor) {
    const void* address =
        tensor.defined() ? address_on_gpu(*tensor.unsafeGetTensorImpl()) : nullptr;
    return reinterpret_cast<std::uintptr_t>(address);
  };
  const auto at = memory(accumulate->variable.grad());
  if (at == 0) return;
  const std::lock_guard lock(state.mutex);
  const std::string* name = state.parameter_at(memory(accumulate->variable));
  state.label(at, "gradients", name == nullptr ? "" : std::string(*name));
}

void end(const at::RecordFunction& call, at::ObserverContext* context) {
  if (context == nullptr) return;
  const auto* before = static_cast<Before*>(context);
  node_here = before->outer;
  ran = before->own;
  if (State* state = recording(); state != nullptr && std::string_view(call.name()) == kAccumulate)
    label_gradient(*state);
}

}  // namespace

void follow_nodes() {
  static std::once_flag once;
  std::call_once(once, [] {
    if (operators::device.on_node != nullptr) operators::device.on_node(&note_node);
    at::addGlobalCallback(
        at::RecordFunctionCallback(&begin, &end).scopes({at::RecordScope::BACKWARD_FUNCTION}));
  });
}

const void* address_on_gpu(const c10::TensorImpl& tensor) {
  if (!tensor.is_cuda() || !tensor.has_storage()) return nullptr;
  const auto* begin = static_cast<const char*>(tensor.unsafe_storage().data());
  const auto offset = static_cast<std::size_t>(tensor.storage_offset()) * tensor.itemsize();
  return begin == nullptr ? nullptr : begin + offset;
}

// The engine sums a node's results up to the sizes of its inputs when the node itself has ended,
// also where another node runs around it (reentrant checkpoints).
namespace {

Numbered running_node() {
  const auto node = torch::autograd::get_current_node();
  return node && node.get() == ran.node ? ran.numbered : node_here;
}

}  // namespace

Number node_now() { return running_node().number; }

bool node_now_has_place() { return running_node().has_place; }

Number module_now(State& state) {
  if (module_here != 0) return module_here;
  // The operator of the last node may run in Python, as those of DTensor do.
  const bool saves = at::GradMode::is_enabled() && state.stacks().is_below(last_made);
  return saves || (node_now() == 0 && in_function(state.stacks()))
             ? state.names().string(kOutsideModules)
             : 0;
}
void set_module_now(Number module) { module_here = module; }

}  // namespace tidemark::recorder
