// The account that a profiler gets (libcupti): the calls of the program into the runtime and the
// driver, and what these put onto the device. Calls have times of the profiler's clock. Operations
// have times of the virtual device: they are the entries of the trace (engine.h), with the call
// that they belong to.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/virtual/device/device.h"

#pragma GCC visibility push(default)
namespace tidemark::device {

/// Kinds of entries that are recorded, as bits.
enum Profiled : std::uint32_t {
  kProfileCalls = 1,       // of the runtime and the driver
  kProfileOperations = 2,  // kernels, copies, memsets, waits
  kProfileCallbacks = 4,   // `called` of the profiler
};
/// 0: there is no profiler, and a call costs one load more.
extern std::atomic<std::uint32_t> profiled;

enum class Api : std::uint32_t { driver = 1, runtime = 2 };  // as CUPTI numbers its domains

/// A call of the program. Calls that a call makes itself belong to it.
struct ProfiledCall {
  static constexpr std::size_t kMarks = 6;
  const char* function = nullptr;
  Api api = Api::runtime;
  std::uint32_t id = 0;                       // correlates it with its operations; 0: none
  std::uint32_t thread = 0;                   // pthread_self, as CUPTI cuts it off
  std::uint64_t begin = 0, end = 0;           // of the profiler's clock
  std::uint32_t marked = 0;                   // which of the marks there are, as bits
  std::array<std::uint64_t, kMarks> marks{};  // ids that the profiler has pushed, by kind
};

/// Description of an operation, without its time.
struct Work {
  /// wait: of the host. record, stream_wait: of an event, whose number is `value`.
  enum class Type : std::uint8_t { unnamed, kernel, copy, fill, wait, record, stream_wait };
  /// As CUPTI numbers it.
  enum Memory : std::uint8_t { kPageable = 1, kPinned = 2, kDevice = 3 };
  Type type = Type::unnamed;
  std::uint8_t from = 0, to = 0;  // Memory of a copy; `to` also of a memset
  bool between_devices = false;
  std::uint32_t value = 0;  // of a memset; the number of an event, from 1
  std::uint64_t bytes = 0;
  // A kernel inside a library has no launch that is known: one block of one thread.
  std::array<std::uint32_t, 3> grid{1, 1, 1}, block{1, 1, 1};
  std::uint32_t shared = 0, registers = 0;
};

struct ProfiledOperation {
  const char* name = nullptr;  // lives as long as the process
  Work work;
  int device = 0;
  std::uint32_t stream = 0;  // 0: the legacy default stream
  std::uint32_t call = 0;
  std::uint32_t window = 0;  // as profile_window() was
  std::uint64_t called = 0;  // when its call began, of the profiler's clock
  Ns begin = 0, end = 0;     // of the virtual clock
};

struct Activities {
  std::vector<ProfiledCall> calls;            // in the order of their ends
  std::vector<ProfiledOperation> operations;  // in the order of enqueueing
};

struct Profiler {
  std::uint64_t (*now)() = nullptr;  // its clock
  /// With kProfileCallbacks, at the begin and the end of each call; no lock is held.
  void (*called)(const ProfiledCall& call, bool ends) = nullptr;
  /// The host has waited for the whole device, up to this time of the virtual clock; no lock is
  /// held.
  void (*waited)(Ns end) = nullptr;
};
/// Its functions, which stay for the life of the process.
void set_profiler(const Profiler& profiler);
/// Takes the entries recorded since the last call.
Activities take_activities();
/// Shows `look` the operations from index `from` on, valid during the call; takes none.
void look_at_operations(std::size_t from, void (*look)(const ProfiledOperation&, void*), void*);
/// The operations from now on belong to a new window.
void begin_profile_window();
/// The top of the calling thread's stack of marks of this kind; calls carry them.
void push_mark(std::size_t kind, std::uint64_t id);
bool pop_mark(std::size_t kind, std::uint64_t* id);

/// True if the call is the outermost of its thread and is recorded.
bool begin_call(Api api, const char* function);
void end_call();

/// The call by which a library of NVIDIA's launches its kernels.
inline constexpr const char* kLibraryLaunch = "cudaLaunchKernel";

/// A call, for as long as this lives. Of calls within calls the outermost counts.
class CallRecord {
 public:
  CallRecord(Api api, const char* function)
      : recorded_(profiled.load(std::memory_order_relaxed) != 0 && begin_call(api, function)) {}
  ~CallRecord() {
    if (recorded_) end_call();
  }
  CallRecord(const CallRecord&) = delete;
  CallRecord& operator=(const CallRecord&) = delete;

 private:
  bool recorded_;
};

}  // namespace tidemark::device
#pragma GCC visibility pop

namespace tidemark::device {

struct Stream;
struct TraceEntry;

/// The call that the thread is in, for operations that are carried out later.
struct CurrentCall {
  std::uint32_t id = 0;
  std::uint64_t begin = 0;
};
CurrentCall& current_call();

/// The trace has this entry (the engine's lock is held). `stream` 0: the legacy default stream.
void note_operation(const TraceEntry& entry, int device, std::uint32_t stream, const Work& work);
/// The last operation, if it is in this stream, ends later.
void lengthen_operation(int device, std::uint32_t stream, Ns end);
/// The record of the event of this number, from 0, in the stream; a wait of the stream for it, from
/// `begin` to the stream's tail.
void note_event(const Stream& stream, std::ptrdiff_t number, Ns time);
void note_stream_wait(const Stream& stream, std::ptrdiff_t number, Ns begin);
/// The host has waited for the whole device (no lock is held).
void note_device_wait(Ns end);

}  // namespace tidemark::device
