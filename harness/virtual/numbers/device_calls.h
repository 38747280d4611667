// The virtual device's control functions that the operator layer needs, looked up by name: this
// library also loads where there is no virtual device, and then refuses to be installed.
#pragma once

#include <cstddef>
#include <cstdint>

#include "harness/virtual/numbers/backward_names.h"

struct tidemark_access;

namespace tidemark::numbers {

struct DeviceCalls {
  void (*suspend_data)(int delta) = nullptr;
  void (*begin_operator)(const char* name) = nullptr;
  void (*end_operator)(std::uint64_t bytes) = nullptr;

  void (*answer_reads)(int on, std::int64_t value) = nullptr;
  void (*accept_unknown)(int delta) = nullptr;
  int (*accepts_unknown)() = nullptr;
  int (*take_refusal)() = nullptr;
  void (*numbers_computed)(int on) = nullptr;

  // Mode known
  void (*mark_known)(const void* address, std::uint64_t bytes, int known) = nullptr;
  int (*is_known)(const void* address, std::uint64_t bytes) = nullptr;
  void (*copy_known)(void* to, const void* from, std::uint64_t bytes) = nullptr;
  std::uint64_t (*known_limit)() = nullptr;
  void (*new_block)(const void* address, std::uint64_t bytes) = nullptr;

  // Race detection (harness/virtual/race/control.h)
  int (*races_detected)() = nullptr;
  void (*begin_watched)(const char* name) = nullptr;
  void (*end_watched)(const tidemark_access* accesses, std::size_t count) = nullptr;
  void (*host_access)(const char* name, const void* address, std::uint64_t bytes,
                      int write) = nullptr;
  void (*allocated)(const void* address, std::uint64_t bytes, void* stream) = nullptr;
  void (*freed)(const void* address) = nullptr;
  void (*returned)(const void* address, std::uint64_t bytes) = nullptr;

  /// False when the process has no virtual device.
  bool find();
};
inline DeviceCalls device;

/// While it lives, no bytes move on this thread.
struct SuspendData {
  SuspendData() { device.suspend_data(1); }
  ~SuspendData() { device.suspend_data(-1); }
  SuspendData(const SuspendData&) = delete;
};

/// While it lives, host code on this thread that reads a count back from the device gets this one.
struct AnswerReads {
  explicit AnswerReads(std::int64_t value) { device.answer_reads(1, value); }
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
  explicit Bracket(const char* name) {
    device.begin_operator(name);
    if (names_backward) name_backward();
  }
  ~Bracket() { device.end_operator(bytes); }
  Bracket(const Bracket&) = delete;
  std::uint64_t bytes = 0;
};

}  // namespace tidemark::numbers
