// Entering and leaving a mode: which kernel goes before which operator.
#include <algorithm>
#include <mutex>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/json_string.h"
#include "harness/virtual/device/names.h"
#include "harness/virtual/operators/arrivals.h"
#include "harness/virtual/operators/device_calls.h"
#include "harness/virtual/operators/kernels.h"
#include "harness/virtual/operators/layer.h"
#include "harness/virtual/operators/policies.h"
#include "harness/virtual/operators/reads.h"
#include "harness/virtual/operators/watch.h"

namespace tidemark::operators {
namespace {

using c10::DispatchKey;

bool is_view(const c10::OperatorHandle& op) {
  const auto& returns = op.schema().returns();
  return std::any_of(returns.begin(), returns.end(), [](const c10::Argument& r) {
    return r.alias_info() && !r.alias_info()->isWrite();
  });
}

class Installation {
 public:
  std::string enter(const std::string& mode) {
    if (mode != "off" && mode != "shapes" && mode != "cost" && mode != "math" && mode != "known")
      return "no such mode: " + mode + " (off, shapes, cost, known, math)";
    const std::lock_guard lock(mutex_);
    device = {};
    if (mode != "off" && !device.has_device) return "this process has no virtual device";
    registrations_.clear();
    wrapped_ = 0;
    without_numbers_.clear();
    not_cuda_yet_.clear();
    forget_used();
    mode_ = mode;
    if (device.numbers_computed) device.numbers_computed(mode == "math");
    if (mode == "off") return "";
    if (mode == "known") read_sizes();
    add(c10::Dispatcher::singleton().getAllOpNames());
    if (device.races_detected()) follow_allocator();
    follow_registrations([this](const std::vector<c10::OperatorName>& names) { add_late(names); });
    return "";
  }

  std::string mode() const { return mode_; }
  std::string describe() const {
    const auto list = [](std::vector<std::string> names) {
      std::sort(names.begin(), names.end());
      for (std::string& name : names) name = device::json_string(name);
      return device::json_list(names);
    };
    return R"({"mode":)" + device::json_string(mode_) + R"(,"wrapped":)" +
           std::to_string(wrapped_) + R"(,"without_numbers":)" + list(without_numbers_) +
           R"(,"used":)" + list(used_operators()) + '}';
  }

 private:
  void add(const std::vector<c10::OperatorName>& names) {
    Quiet quiet;
    c10::WarningUtils::WarningHandlerGuard guard(&quiet);
    for (const c10::OperatorName& name : names) {
      const auto op = c10::Dispatcher::singleton().findSchema(name);
      if (!op) continue;
      mode_ == "math" ? add_math(*op) : mode_ == "known" ? add_known(*op) : add_shapes(*op);
      if (looks_for_errors(c10::toString(name))) put(*op, succeeds_kernel(original(*op)));
      if (device.races_detected()) add_host(*op);
    }
  }
  // A library may define an operator first and give it its CUDA kernel when it defines others.
  void add_late(const std::vector<c10::OperatorName>& names) {
    const std::lock_guard lock(mutex_);
    if (mode_ == "off") return;
    not_cuda_yet_.insert(not_cuda_yet_.end(), names.begin(), names.end());
    std::vector<c10::OperatorName> ready;
    std::erase_if(not_cuda_yet_, [&](const c10::OperatorName& name) {
      const auto op = c10::Dispatcher::singleton().findSchema(name);
      if (op && !op->hasKernelForDispatchKey(DispatchKey::CUDA)) return false;
      if (op) ready.push_back(name);
      return true;
    });
    add(ready);
  }

  // copy_ is registered once for all devices.
  static bool is_copy(const std::string& name) { return name == "aten::copy_"; }
  static bool on_cuda(const c10::OperatorHandle& op, const std::string& name) {
    return (op.hasKernelForDispatchKey(DispatchKey::CUDA) || is_copy(name)) && !is_view(op) &&
           !computes_nothing(name) && !is_communication(name);
  }
  static Original original(const c10::OperatorHandle& op, DispatchKey key = DispatchKey::CUDA) {
    return kernel_of(op, key);
  }
  void put(const c10::OperatorHandle& op, Kernel kernel, DispatchKey key = DispatchKey::CUDA) {
    registrations_.push_back(c10::Dispatcher::singleton().registerImpl(
        op.operator_name(), key, with_unsigned(op, with_reads(op, std::move(kernel))), std::nullopt,
        nullptr, "tidemark numbers"));
    ++wrapped_;
  }

  void add_math(const c10::OperatorHandle& op) {
    const std::string name = c10::toString(op.operator_name());
    constexpr auto kQuantized = DispatchKey::QuantizedCUDA;
    if (op.hasKernelForDispatchKey(kQuantized))
      put(op, no_numbers_kernel(op, original(op, kQuantized)), kQuantized);
    each_of_parts(op, name, [&](DispatchKey key, bool on_cpu) {
      auto before = original(op, key);
      put(op, on_cpu ? math_kernel(op, before) : no_numbers_kernel(op, before), key);
    });
    if (name == "symm_mem::_async_input_mm" && op.hasKernelForDispatchKey(DispatchKey::CUDA))
      return put(op, signalled_matmul_kernel(op, original(op)));
    if (!on_cuda(op, name)) return;
    if (name == "aten::_local_scalar_dense") {
      put(op, read_value_kernel(op, original(op)));
    } else if (has_cpu_kernel(op, name)) {
      put(op, math_kernel(op, original(op)));
    } else if (!name.starts_with("aten::")) {
      put(op, foreign_kernel(op, original(op)));
    } else {
      put(op, no_numbers_kernel(op, original(op)));
      without_numbers_.push_back(name);
    }
  }

  static bool has_cpu_kernel(const c10::OperatorHandle& op, const std::string& name) {
    return composition(name) || op.hasComputedKernelForDispatchKey(DispatchKey::CPU);
  }

  // Their kernels for tensors that are made of others, and whether the CPU has one.
  template <class Use>
  static void each_of_parts(const c10::OperatorHandle& op, const std::string& name, Use use) {
    const auto add = [&](DispatchKey key, DispatchKey of_cpu) {
      if (op.hasKernelForDispatchKey(key)) use(key, op.hasKernelForDispatchKey(of_cpu));
    };
    if (computes_sparse(name)) {
      add(DispatchKey::SparseCUDA, DispatchKey::SparseCPU);
      add(DispatchKey::SparseCsrCUDA, DispatchKey::SparseCsrCPU);
    }
    if (computes_nested(name)) add(DispatchKey::NestedTensorCUDA, DispatchKey::NestedTensorCPU);
  }

  void add_known(const c10::OperatorHandle& op) {
    const std::string name = c10::toString(op.operator_name());
    each_of_parts(op, name, [&](DispatchKey key, bool on_cpu) {
      put(op,
          known_kernel(
              op, [&] { return original(op, key); }, on_cpu),
          key);
    });
    const auto before = [&op] { return original(op); };
    if (name == "aten::resize_") put(op, known_resize_kernel(before));
    if (name == "aten::view.dtype") put(op, known_bytes_kernel(before));
    if (!on_cuda(op, name)) return;
    if (name == "aten::_local_scalar_dense") {
      put(op, known_read_kernel(op, before));
    } else if (has_cpu_kernel(op, name)) {
      put(op, known_kernel(op, before, true));
    } else if (name.starts_with("aten::")) {
      put(op, known_kernel(op, before, false));
      without_numbers_.push_back(name);
    }
    // An extension's operator without a CPU kernel is left alone: what it launches makes the memory
    // that it points to unknown.
  }

  void add_shapes(const c10::OperatorHandle& op) {
    const std::string name = c10::toString(op.operator_name());
    if (needs_values(name) && op.hasKernelForDispatchKey(DispatchKey::SparseCUDA))
      put(op, needs_values_kernel(op), DispatchKey::SparseCUDA);
    if (!on_cuda(op, name)) return;
    if (name == "aten::_local_scalar_dense") {
      put(op, no_value_kernel(op, original(op)));
    } else if (needs_values(name)) {
      put(op, needs_values_kernel(op));
    } else if (mode_ == "cost") {
      put(op, cost_kernel(op, original(op)));
    } else if (device.races_detected()) {
      put(op, watched_kernel(op, original(op)));
    }
    if (is_copy(name)) put(op, copy_kernel(original(op)));
  }

  void add_host(const c10::OperatorHandle& op) {
    const std::string name = c10::toString(op.operator_name());
    if (touches_pinned_memory(name) && op.hasComputedKernelForDispatchKey(DispatchKey::CPU))
      put(op, host_kernel(op, original(op, DispatchKey::CPU)), DispatchKey::CPU);
  }

  mutable std::mutex mutex_;
  std::string mode_ = "off";
  std::vector<c10::RegistrationHandleRAII> registrations_;
  std::size_t wrapped_ = 0;
  std::vector<std::string> without_numbers_;
  std::vector<c10::OperatorName> not_cuda_yet_;  // registered late, as far as it has come
};

// Never destroyed: the dispatcher may go first.
Installation& installation() { return device::immortal<Installation>(); }
thread_local std::string layer_error;

}  // namespace
}  // namespace tidemark::operators

using tidemark::operators::installation;
using tidemark::operators::layer_error;
#define EXPORTED extern "C" [[gnu::visibility("default")]]

EXPORTED int tidemark_layer_install(const char* mode) {
  try {
    layer_error = installation().enter(mode ? mode : "");
  } catch (const std::exception& error) {
    layer_error = error.what();
  }
  return layer_error.empty() ? 0 : -1;
}
EXPORTED void tidemark_layer_follow_reads() { tidemark::operators::follow_reads(); }
EXPORTED const char* tidemark_layer_error() { return layer_error.c_str(); }
EXPORTED const char* tidemark_layer_mode() {
  thread_local std::string mode;
  mode = installation().mode();
  return mode.c_str();
}
EXPORTED size_t tidemark_layer_describe(char* text, size_t size) {
  return tidemark::device::give_text(installation().describe(), text, size);
}
