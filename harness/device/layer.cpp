#include "harness/device/layer.h"

#include <ATen/record_function.h>

#include <atomic>
#include <string_view>
#include <vector>

namespace tidemark::layer {
namespace {

struct Frame {
  std::string name;
  bool node;  // of autograd, not an operator
};
thread_local std::vector<Frame> frames;
std::atomic<Returned> tell{nullptr};

std::unique_ptr<at::ObserverContext> enter(const at::RecordFunction& function) {
  frames.push_back({function.name(), !function.operator_name()});
  return nullptr;
}

// "MyFunction" of "torch::autograd::CppNode<(anonymous namespace)::MyFunction>".
std::string plain(const std::string& node) {
  const auto inside = node.find("CppNode<");
  if (inside == std::string::npos) return node;
  const auto end = node.rfind('>'), scope = node.rfind("::", end);
  const auto from = scope == std::string::npos || scope < inside ? inside + 8 : scope + 2;
  return node.substr(from, end - from);
}

void look_at(const c10::IValue& value, Returned returned) {
  const auto tell_of = [&](const at::Tensor& tensor) {
    if (tensor.defined() && tensor.is_cuda() && tensor.has_storage()) returned(tensor);
  };
  if (value.isTensor()) tell_of(value.toTensor());
  if (value.isTensorList())
    for (const at::Tensor& tensor : value.toTensorVector()) tell_of(tensor);
}

// Following may begin inside an operator, whose end is then seen without its beginning.
void leave(const at::RecordFunction& function, at::ObserverContext*) {
  if (!frames.empty()) frames.pop_back();
  if (Returned returned = tell)
    for (const c10::IValue& output : function.outputs()) look_at(output, returned);
}

bool only_allocates(std::string_view name) {
  return name.starts_with("aten::empty") || name.starts_with("aten::resize");
}

}  // namespace

void follow(bool on, Returned returned) {
  static const at::CallbackHandle handle = at::addGlobalCallback(
      at::RecordFunctionCallback(enter, leave)
          .needsOutputs(true)
          .scopes({at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION}));
  tell = on ? returned : nullptr;
  static bool following = true;
  if (on == following) return;
  following = on;
  on ? at::reenableCallback(handle) : at::disableCallback(handle);
}

std::string current() {
  if (frames.empty()) return "";
  std::string name, allocation, node;
  for (auto frame = frames.rbegin(); frame != frames.rend() && node.empty(); ++frame) {
    if (frame->node) {
      if (!frame->name.starts_with("autograd::engine")) node = plain(frame->name);
    } else if (only_allocates(frame->name)) {
      if (allocation.empty()) allocation = frame->name;
    } else if (name.empty()) {
      name = frame->name;
    }
  }
  if (name.empty()) name = allocation;
  if (name.empty() || node.empty()) return name + node;
  return name + " (" + node + ")";
}

}  // namespace tidemark::layer
