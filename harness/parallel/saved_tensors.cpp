#include "harness/parallel/saved_tensors.h"

#include <torch/csrc/autograd/engine.h>

#include <mutex>
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

}  // namespace

void install_saved_tensor_engine() {
  static std::once_flag once;
  std::call_once(once, [] { torch::autograd::set_default_engine_stub(hook_engine); });
}

SavedTensorScope::SavedTensorScope(SavedTensorPolicy policy) {
  install_saved_tensor_engine();
  policies.push_back(std::move(policy));
}
SavedTensorScope::~SavedTensorScope() { policies.pop_back(); }

}  // namespace tidemark
