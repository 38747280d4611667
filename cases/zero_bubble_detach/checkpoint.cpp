#include "cases/zero_bubble_detach/checkpoint.h"

#include <ATen/ATen.h>
#include <torch/csrc/autograd/engine.h>
#include <torch/csrc/autograd/graph_task.h>
#include <torch/csrc/autograd/saved_variable_hooks.h>

#include <atomic>
#include <map>
#include <set>
#include <stdexcept>
#include <vector>

namespace tidemark::zero_bubble_detach {
namespace {

using torch::autograd::SavedVariableHooks;

/// Makes the hooks of one saved tensor.
using SavedTensorPolicy = std::function<std::unique_ptr<SavedVariableHooks>()>;
thread_local std::vector<SavedTensorPolicy> policies;

// PyTorch asks its engine for these hooks, so a program with this in it has an engine of its own
// from its start.
class HookEngine final : public torch::autograd::Engine {
 public:
  ~HookEngine() override { stop(); }
  std::unique_ptr<SavedVariableHooks> get_default_saved_variable_hooks() override {
    return policies.empty() ? nullptr : policies.back()();
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

/// While it lives, every tensor that autograd saves in this thread is packed by `policy`; the scope
/// opened last counts: C++'s counterpart of torch.autograd.graph.saved_tensors_hooks.
class SavedTensorScope {
 public:
  explicit SavedTensorScope(SavedTensorPolicy policy) { policies.push_back(std::move(policy)); }
  ~SavedTensorScope() { policies.pop_back(); }
  SavedTensorScope(const SavedTensorScope&) = delete;
  SavedTensorScope& operator=(const SavedTensorScope&) = delete;
};

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
  std::vector<std::weak_ptr<Holder>> holders;
  std::set<int> done;  // runs of the engine
};

class Again final : public SavedVariableHooks {
 public:
  Again(Frame& frame, int run, std::size_t& index) : frame_(frame), run_(run), index_(index) {}
  void call_pack_hook(const at::Tensor& tensor) override {
    if (index_ >= frame_.holders.size())
      throw std::runtime_error("a checkpointed block saved more than the " +
                               std::to_string(index_) + " tensors of its first run");
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
    const SavedTensorScope scope([&] { return std::make_unique<Again>(frame, run, index); });
    frame.block(frame.input.detach().requires_grad_(frame.input.requires_grad()));
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
  void call_pack_hook(const at::Tensor&) override {
    holder_ = std::make_shared<Holder>();
    frame_->holders.push_back(holder_);
  }
  at::Tensor call_unpack_hook() override {
    const int run = torch::autograd::get_current_graph_task_id();
    if (!frame_->done.contains(run)) run_again(*frame_, run);
    const auto found = holder_->again.find(run);
    if (found == holder_->again.end())
      throw std::runtime_error(
          "a tensor of a checkpointed block was asked for twice in one backward");
    at::Tensor tensor = std::move(found->second);
    holder_->again.erase(found);
    // Outside a backward there is no run to belong to: the next one starts anew.
    if (run < 0) frame_->done.clear();
    return tensor;
  }

 private:
  std::shared_ptr<Frame> frame_;
  std::shared_ptr<Holder> holder_;
};

}  // namespace

at::Tensor checkpoint(std::function<at::Tensor(const at::Tensor&)> block, const at::Tensor& input) {
  auto frame = std::make_shared<Frame>();
  frame->block = std::move(block);
  frame->input = input.detach().requires_grad_(input.requires_grad());
  const SavedTensorScope scope([frame] { return std::make_unique<First>(frame); });
  return frame->block(input);
}

std::int64_t recomputations() { return runs_again; }

}  // namespace tidemark::zero_bubble_detach
