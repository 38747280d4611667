// The virtual device's control functions that the operator layer needs, looked up by name: this
// library also loads where there is no virtual device, and then refuses to be installed.
#pragma once

#include <ATen/Context.h>
#include <ATen/core/Tensor.h>
#include <dlfcn.h>

#include <cstdint>

#include "harness/virtual/device/autograd.h"
#include "harness/virtual/device/control.h"
#include "harness/virtual/device/memory_use.h"
#include "harness/virtual/device/symbol.h"
#include "harness/virtual/race/control.h"

namespace tidemark::operators {

struct DeviceCalls {
  /// True if the process has a virtual device.
  bool has_device = true;

  decltype(&tidemark_device_suspend_data) suspend_data = look("tidemark_device_suspend_data");
  decltype(&tidemark_device_await_stream) await_stream = look("tidemark_device_await_stream");
  decltype(&tidemark_device_begin_operator) begin_operator = look("tidemark_device_begin_operator");
  decltype(&tidemark_device_end_operator) end_operator = look("tidemark_device_end_operator");
  decltype(&tidemark_device_operations_inside) operations_inside =
      look("tidemark_device_operations_inside");
  decltype(&tidemark_device_answer_reads) answer_reads = look("tidemark_device_answer_reads");
  decltype(&tidemark_device_sparse_product) sparse_product = look("tidemark_device_sparse_product");
  decltype(&tidemark_device_accept_unknown) accept_unknown = look("tidemark_device_accept_unknown");
  decltype(&tidemark_device_accepts_unknown) accepts_unknown =
      look("tidemark_device_accepts_unknown");
  decltype(&tidemark_device_take_refusal) take_refusal = look("tidemark_device_take_refusal");
  decltype(&tidemark_device_note_refusal) note_refusal = look("tidemark_device_note_refusal");
  decltype(&tidemark_device_numbers_computed) numbers_computed =
      look("tidemark_device_numbers_computed");
  // The recorder
  decltype(&tidemark_device_now) now = look("tidemark_device_now");
  decltype(&tidemark_device_on_node) on_node = look("tidemark_device_on_node");
  decltype(&tidemark_device_on_use) on_use = look("tidemark_device_on_use");
  decltype(&tidemark_device_memory_changes) memory_changes = look("tidemark_device_memory_changes");
  decltype(&tidemark_device_memory_total) memory_total = look("tidemark_device_memory_total");
  decltype(&tidemark_device_read_memory) read_memory = look("tidemark_device_read_memory");
  // CUDA graphs
  decltype(&tidemark_device_captures_under_way) captures_under_way =
      look("tidemark_device_captures_under_way");
  decltype(&tidemark_device_is_capturing) is_capturing = look("tidemark_device_is_capturing");
  decltype(&tidemark_device_capture_effect) capture_effect = look("tidemark_device_capture_effect");
  decltype(&tidemark_device_run_when_signalled) run_when_signalled =
      look("tidemark_device_run_when_signalled");
  // Mode known
  decltype(&tidemark_device_mark_known) mark_known = look("tidemark_device_mark_known");
  decltype(&tidemark_device_is_known) is_known = look("tidemark_device_is_known");
  decltype(&tidemark_device_copy_known) copy_known = look("tidemark_device_copy_known");
  decltype(&tidemark_device_known_limit) known_limit = look("tidemark_device_known_limit");
  decltype(&tidemark_device_new_block) new_block = look("tidemark_device_new_block");
  // Race detection
  decltype(&tidemark_races_detected) races_detected = look("tidemark_races_detected");
  decltype(&tidemark_races_begin_operator) begin_watched = look("tidemark_races_begin_operator");
  decltype(&tidemark_races_end_operator) end_watched = look("tidemark_races_end_operator");
  decltype(&tidemark_races_host_access) host_access = look("tidemark_races_host_access");
  decltype(&tidemark_races_allocated) allocated = look("tidemark_races_allocated");
  decltype(&tidemark_races_freed) freed = look("tidemark_races_freed");
  decltype(&tidemark_races_returned) returned = look("tidemark_races_returned");

  device::Symbol look(const char* name) {
    void* const address = dlsym(RTLD_DEFAULT, name);
    has_device = has_device && address != nullptr;
    return {address};
  }
};

inline DeviceCalls device;

/// While it lives, PyTorch does not look whether the indices of a sparse tensor are valid
/// (torch.sparse.check_sparse_tensor_invariants).
struct UncheckedSparse {
  UncheckedSparse() : was(at::globalContext().checkSparseTensorInvariants() == true) {
    if (was) at::globalContext().setCheckSparseTensorInvariants(false);
  }
  ~UncheckedSparse() {
    if (was) at::globalContext().setCheckSparseTensorInvariants(true);
  }
  UncheckedSparse(const UncheckedSparse&) = delete;
  const bool was;
};

/// While it lives, no bytes move on this thread, and no indices are looked at.
struct SuspendData {
  SuspendData() { device.suspend_data(1); }
  ~SuspendData() { device.suspend_data(-1); }
  SuspendData(const SuspendData&) = delete;
  UncheckedSparse unchecked;
};

/// While it lives, host code on this thread that reads a count back from the device gets this one;
/// `whatever`: it gets that as any value that it reads.
struct AnswerReads {
  explicit AnswerReads(std::int64_t value, bool whatever = false) {
    device.answer_reads(whatever ? 2 : 1, value);
  }
  ~AnswerReads() { device.answer_reads(0, 0); }
  AnswerReads(const AnswerReads&) = delete;
};

/// While it lives, a copy to the host that moves no data leaves "no value" (0xFF) on this thread.
struct AcceptUnknown {
  explicit AcceptUnknown(bool accept = true) : delta(accept ? 1 : 0) {
    device.accept_unknown(delta);
  }
  ~AcceptUnknown() { device.accept_unknown(-delta); }
  AcceptUnknown(const AcceptUnknown&) = delete;
  const int delta;
};

/// Brackets an operator; `bytes` is what it is charged when it ends.
struct Bracket {
  explicit Bracket(const char* name) { device.begin_operator(name); }
  ~Bracket() { device.end_operator(bytes); }
  Bracket(const Bracket&) = delete;
  std::uint64_t bytes = 0;
};

}  // namespace tidemark::operators
