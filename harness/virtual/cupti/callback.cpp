// CUPTI's callback interface. The subscriber is told of the begin and the end of calls, by number
// and name and without their parameters. Contexts are there from the start, so there is nothing to
// tell of resources.
#include <algorithm>
#include <cstdint>
#include <mutex>
#include <set>
#include <utility>

#include "harness/virtual/cupti/clock.h"
#include "harness/virtual/cupti/layout.h"
#include "harness/virtual/cupti/names.h"
#include "harness/virtual/cupti/subscriber.h"
#include "harness/virtual/device/cuda_versions.h"
#include "harness/virtual/device/immortal.h"

namespace {

using namespace tidemark::cupti;
namespace device = tidemark::device;

struct CallbackData {      // CUpti_CallbackData
  std::uint32_t site = 0;  // 0: the call begins, 1: it ends
  const char* function = nullptr;
  const void* parameters = nullptr;
  void* result = nullptr;
  const char* symbol = nullptr;
  void* context = nullptr;
  std::uint32_t context_id = 0;
  std::uint64_t* data = nullptr;
  std::uint32_t correlation_id = 0;
};
using Callback = void (*)(void* user, std::uint32_t domain, std::uint32_t number, const void* data);

constexpr std::uint32_t kDomains = 7, kAll = ~0u;

struct Subscriber {
  std::mutex mutex;
  Callback callback = nullptr;
  void* user = nullptr;
  std::set<std::pair<std::uint32_t, std::uint32_t>> wanted;  // domain and number, or all numbers
};
Subscriber& subscriber() { return device::immortal<Subscriber>(); }

void listen(bool on) {
  if (on) {
    device::set_profiler({.now = now, .called = subscriber_called, .waited = wait_in_real_time});
    device::profiled |= device::kProfileCallbacks;
  } else {
    device::profiled &= ~std::uint32_t{device::kProfileCallbacks};
  }
}

Status want(void* handle, std::uint32_t domain, std::uint32_t number, bool enable) {
  Subscriber& s = subscriber();
  const std::lock_guard lock(s.mutex);
  if (handle != &s || !s.callback || domain == 0 || domain >= kDomains) return kInvalidParameter;
  if (enable) {
    s.wanted.insert({domain, number});
  } else if (number == kAll) {
    std::erase_if(s.wanted, [&](const auto& one) { return one.first == domain; });
  } else {
    s.wanted.erase({domain, number});
  }
  const auto of_calls = [](const auto& one) { return one.first <= 2; };
  listen(std::ranges::any_of(s.wanted, of_calls));
  return kSuccess;
}

}  // namespace

namespace tidemark::cupti {

void subscriber_called(const device::ProfiledCall& call, bool ends) {
  Subscriber& s = subscriber();
  Callback callback = nullptr;
  void* user = nullptr;
  const auto domain = static_cast<std::uint32_t>(call.api);
  const std::uint32_t number = number_of(call.api, call.function);
  {
    const std::lock_guard lock(s.mutex);
    if (number == 0 || !(s.wanted.contains({domain, kAll}) || s.wanted.contains({domain, number})))
      return;
    callback = s.callback;
    user = s.user;
  }
  const CallbackData data{
      .site = ends ? 1u : 0u, .function = call.function, .correlation_id = call.id};
  if (callback) callback(user, domain, number, &data);
}

void forget_subscriber() {
  Subscriber& s = subscriber();
  const std::lock_guard lock(s.mutex);
  s.callback = nullptr;
  s.wanted.clear();
  listen(false);
}

}  // namespace tidemark::cupti

extern "C" {

Status cuptiSubscribe(void** handle, Callback callback, void* user) {
  if (!handle) return kInvalidParameter;
  Subscriber& s = subscriber();
  const std::lock_guard lock(s.mutex);
  if (s.callback) return kMultipleSubscribers;
  s.callback = callback;
  s.user = user;
  *handle = &s;
  return kSuccess;
}

Status cuptiUnsubscribe(void* handle) {
  if (handle != &subscriber()) return kInvalidParameter;
  forget_subscriber();
  return kSuccess;
}

Status cuptiEnableCallback(std::uint32_t enable, void* handle, std::uint32_t domain,
                           std::uint32_t number) {
  return want(handle, domain, number, enable != 0);
}
Status cuptiEnableDomain(std::uint32_t enable, void* handle, std::uint32_t domain) {
  return want(handle, domain, kAll, enable != 0);
}

Status cuptiGetCallbackName(std::uint32_t domain, std::uint32_t number, const char** name) {
  if (!name || domain == 0 || domain > 2) return kInvalidParameter;
  const char* const function_name = name_of(static_cast<device::Api>(domain), number);
  if (!function_name) return kInvalidParameter;
  *name = function_name;
  return kSuccess;
}

// CUPTI_API_VERSION: 18 with CUDA 12.1, 26 with 12.8, and then that of CUDA.
Status cuptiGetVersion(std::uint32_t* version) {
  if (!version) return kInvalidParameter;
  constexpr std::uint32_t minor = CUDART_VERSION % 1000 / 10;
  *version = CUDART_VERSION >= 13000 ? CUDART_VERSION / 1000 * 10000 + minor * 100 + 1
                                     : 18 + (minor < 2 ? 0 : minor);
  return kSuccess;
}

Status cuptiGetResultString(int status, const char** text) {
  if (!text) return kInvalidParameter;
  switch (status) {
    case kSuccess:
      *text = "CUPTI_SUCCESS";
      break;
    case kInvalidParameter:
      *text = "CUPTI_ERROR_INVALID_PARAMETER";
      break;
    case kMaxLimitReached:
      *text = "CUPTI_ERROR_MAX_LIMIT_REACHED";
      break;
    case kQueueEmpty:
      *text = "CUPTI_ERROR_QUEUE_EMPTY";
      break;
    case kInvalidKind:
      *text = "CUPTI_ERROR_INVALID_KIND";
      break;
    case kNotSupported:
      *text = "CUPTI_ERROR_NOT_SUPPORTED";
      break;
    case kMultipleSubscribers:
      *text = "CUPTI_ERROR_MULTIPLE_SUBSCRIBERS_NOT_SUPPORTED";
      break;
    default:
      *text = "an error of CUPTI";
  }
  return kSuccess;
}

}  // extern "C"
