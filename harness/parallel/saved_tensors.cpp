#include "harness/parallel/saved_tensors.h"

#include <torch/csrc/autograd/engine.h>

#include <vector>

namespace tidemark {
namespace {

thread_local std::vector<SavedTensorPolicy> policies;

class HookEngine final : public torch::autograd::Engine {
 public:
  ~HookEngine() override { stop(); }
  std::unique_ptr<torch::autograd::SavedVariableHooks> get_default_saved_variable_hooks() override {
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

}  // namespace

SavedTensorScope::SavedTensorScope(SavedTensorPolicy policy) {
  policies.push_back(std::move(policy));
}
SavedTensorScope::~SavedTensorScope() { policies.pop_back(); }

}  // namespace tidemark
