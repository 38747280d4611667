#include "harness/virtual/operators/arrivals.h"

#include <ATen/record_function.h>

#include <algorithm>
#include <mutex>
#include <utility>

#include "harness/virtual/device/immortal.h"

namespace tidemark::operators {
namespace {

struct Arrivals {
  std::mutex mutex;
  bool listening = false;
  std::vector<c10::OperatorName> names;
  std::function<void(std::vector<c10::OperatorName>)> arrived;
  at::CallbackHandle callback = at::INVALID_CALLBACK_HANDLE;
};
// Never destroyed: libraries register until the end of the process.
Arrivals& arrivals() { return device::immortal<Arrivals>(); }

// Before the first operator call after a registration. No lock is held while PyTorch is called: a
// registration holds PyTorch's lock when it takes ours.
std::unique_ptr<at::ObserverContext> hand_over(const at::RecordFunction&) {
  Arrivals& a = arrivals();
  std::vector<c10::OperatorName> names;
  at::CallbackHandle done = at::INVALID_CALLBACK_HANDLE;
  std::function<void(std::vector<c10::OperatorName>)> arrived;
  {
    const std::lock_guard lock(a.mutex);
    names.swap(a.names);
    std::swap(done, a.callback);
    arrived = a.arrived;
  }
  if (done != at::INVALID_CALLBACK_HANDLE) at::removeCallback(done);
  if (!names.empty() && arrived) arrived(std::move(names));
  return nullptr;
}

class Listener final : public c10::OpRegistrationListener {
 public:
  void onOperatorRegistered(const c10::OperatorHandle& op) override {
    Arrivals& a = arrivals();
    const std::lock_guard lock(a.mutex);
    if (!a.listening) return;  // those that were there before
    a.names.push_back(op.operator_name());
    if (a.callback == at::INVALID_CALLBACK_HANDLE)
      a.callback = at::addGlobalCallback(
          at::RecordFunctionCallback(&hand_over).scopes({at::RecordScope::FUNCTION}));
  }
  void onOperatorDeregistered(const c10::OperatorHandle& op) override {
    Arrivals& a = arrivals();
    const std::lock_guard lock(a.mutex);
    std::erase(a.names, op.operator_name());
  }
};

}  // namespace

void follow_registrations(std::function<void(std::vector<c10::OperatorName>)> arrived) {
  Arrivals& a = arrivals();
  {
    const std::lock_guard lock(a.mutex);
    a.arrived = std::move(arrived);
    if (std::exchange(a.listening, true)) return;
    a.listening = false;
  }
  static auto* handle = new c10::RegistrationHandleRAII(
      c10::Dispatcher::singleton().addRegistrationListener(std::make_unique<Listener>()));
  static_cast<void>(handle);
  const std::lock_guard lock(a.mutex);
  a.listening = true;
}

}  // namespace tidemark::operators
