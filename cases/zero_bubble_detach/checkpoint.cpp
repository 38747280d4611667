#include "cases/zero_bubble_detach/checkpoint.h"

#include <ATen/ATen.h>
#include <c10/util/ScopeExit.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <atomic>
#include <map>
#include <set>
#include <stdexcept>
#include <utility>
#include <vector>

namespace tidemark::zero_bubble_detach {
namespace {

using torch::autograd::SavedVariableHooks;

/// Makes the hooks of one saved tensor.
using SavedTensorPolicy = std::function<std::unique_ptr<SavedVariableHooks>()>;
thread_local SavedTensorPolicy policy;

// PyTorch asks its engine for these hooks, so a program with this in it has an engine of its own
// from its start.
class HookEngine final : public torch::autograd::Engine {
 public:
  ~HookEngine() override { stop(); }
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    return policy ? policy() : nullptr;
  }
};

torch::autograd::Engine& hook_engine() {
  static HookEngine engine;
  return engine;
}

// Before main: PyTorch starts device threads once in a process, for the engine of its first
// backward. An engine that comes later has none.
[[maybe_unused]] const bool installed = [] {
  torch::autograd::set_default_engine_stub(hook_engine);
  return true;
}();

/// block(input), and every tensor that autograd saves in it is packed by `own`: C++'s counterpart
/// of torch.autograd.graph.saved_tensors_hooks.
template <class Block>
at::Tensor packed_by(SavedTensorPolicy own, const Block& block, const at::Tensor& input) {
  const auto outer = std::exchange(policy, std::move(own));
  const auto restore = c10::make_scope_exit([&] { policy = outer; });
  return block(input);
}

std::atomic<std::int64_t> runs_again{0};

/// Thrown by the last tensor saved: the rest of the block would compute for nothing.
struct NothingMoreToSave {};

/// Stands in for one saved tensor, and dies with its node's saved variables.
struct Holder {
  std::map<int, at::Tensor> again;  // by run of the engine
};

struct Frame {
  std::function<at::Tensor(const at::Tensor&)> block;
  at::Tensor input;  // without the graph before it
  std::vector<std::weak_ptr<Holder>> holders = {};
  std::set<int> done = {};  // runs of the engine
};

class Again final : public SavedVariableHooks {
 public:
  Again(Frame& frame, int run, std::size_t& index) : frame_(frame), run_(run), index_(index) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    tensor_ = tensor.detach();
    if (auto holder = frame_.holders[index_].lock()) holder->again[run_] = tensor_;
    if (++index_ == frame_.holders.size()) throw NothingMoreToSave{};
  }
  at::Tensor call_unpack_hook() override { return tensor_; }

 private:
  Frame& frame_;
  int run_;
  std::size_t& index_;
  at::Tensor tensor_;  // as long as the run lasts
};

void run_again(Frame& frame, int run) {
  std::size_t index = 0;
  try {
    const at::AutoGradMode grad(true);
    packed_by([&] { return std::make_unique<Again>(frame, run, index); }, frame.block,
              frame.input.detach().requires_grad_(frame.input.requires_grad()));
  } catch (const NothingMoreToSave&) {
  }
  ++runs_again;
  if (index != frame.holders.size())
    throw std::runtime_error("a checkpointed block saved " + std::to_string(index) +
                             " tensors when it was run again, " +
                             std::to_string(frame.holders.size()) + " the first time");
  frame.done.insert(run);
}

class First final : public SavedVariableHooks {
 public:
  explicit First(std::shared_ptr<Frame> frame) : frame_(std::move(frame)) {}
  void call_pack_hook(const at::Tensor&) override { frame_->holders.push_back(holder_); }
  at::Tensor call_unpack_hook() override {
    const int run = torch::autograd::get_current_graph_task_id();
    if (!frame_->done.contains(run)) run_again(*frame_, run);
    auto entry = holder_->again.extract(run);
    if (entry.empty())
      throw std::runtime_error(
          "a tensor of a checkpointed block was asked for twice in one backward");
    return std::move(entry.mapped());
  }

 private:
  const std::shared_ptr<Frame> frame_;
  const std::shared_ptr<Holder> holder_ = std::make_shared<Holder>();
};

}  // namespace

at::Tensor checkpoint(std::function<at::Tensor(const at::Tensor&)> block, const at::Tensor& input) {
  auto frame = std::make_shared<Frame>(std::move(block),
                                       input.detach().requires_grad_(input.requires_grad()));
  return packed_by([frame] { return std::make_unique<First>(frame); }, frame->block, input);
}

std::int64_t recomputations() { return runs_again; }

}  // namespace tidemark::zero_bubble_detach
