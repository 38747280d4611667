// The state behind the virtual device, for the files of this folder alone. Everything in it is
// guarded by its mutex, except where a comment says otherwise.
#pragma once

#include <atomic>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "harness/virtual/device/activity.h"
#include "harness/virtual/device/deferred.h"
#include "harness/virtual/device/device.h"
#include "harness/virtual/device/failure.h"
#include "harness/virtual/device/profile.h"
#include "harness/virtual/device/trace_names.h"
#include "harness/virtual/race/vector_clock.h"

struct CUgraphNode_st;

namespace tidemark::device {

class DeviceMemory;
struct Capture;

struct Stream {
  std::uint32_t index = 0;  // its name in vector clocks, and in traces
  int device = 0;
  int priority = 0;
  unsigned flags = 0;
  bool legacy = false;    // the default stream of its device
  bool blocking = false;  // synchronises with the legacy default stream
  bool destroyed = false;
  std::uint64_t count = 0;     // operations enqueued
  std::uint32_t number = 0;    // for people, in the order of first use; 0: none yet
  VectorClock clock;           // ordered before whatever comes next, its own operations included
  Ns tail = 0;                 // when all that ends
  std::vector<Ns> queue;       // when the last launches end, as many as kLaunchQueue says
  std::uint64_t launched = 0;  // since the clock began
  StreamHandle handle = nullptr;
  std::shared_ptr<Capture> capture;           // while it is being captured (capture.h)
  std::vector<CUgraphNode_st*> capture_ends;  // that its next operation comes after
  bool holds_records = false;                 // tidemark_device_hold_records; since then:
  std::uint64_t records = 0, released = 0;    // of events; how many of them are done
};

/// A point in a stream's work.
struct Mark {
  VectorClock clock;
  Ns time = 0;

  void merge(const Mark& other) {
    clock.merge(other.clock);
    time = std::max(time, other.time);
  }
};

/// Launches that a stream takes before the host waits for the first of them to end. 1,024 is what
/// OneFlow counts (pull request 890); stackoverflow.com/questions/53970187 measures "about 1000" a
/// stream, with a kernel's time for each launch after that. Events and waits of streams, which
/// NVIDIA does not document here, take no place. CUDA_SCALE_LAUNCH_QUEUES scales it.
constexpr std::uint64_t kLaunchQueue = 1024;

/// Kind of an entry of the trace, as in tidemark_span.
enum class Kind { op, collective, copy, wait };
/// Which bytes move (TIDEMARK_MODE): none, all, or those that are known (known.h).
enum class Data { none, all, known };
/// Scales, steps, norms and biases are smaller; a product of two square matrices of this size takes
/// a core 0.5 ms in float and 2 ms in fp16 (../README.md).
constexpr std::uint64_t kKnownLimit = 256 << 10;
constexpr std::uint32_t kHostLane = ~std::uint32_t{0};  // in place of a stream

struct TraceEntry {
  const char* name;  // of Engine::trace_names
  std::uint32_t stream;
  Ns start, end, host;
  Kind kind = Kind::op;
  std::uint64_t place = 0;  // among the operations of its stream; 0: a wait
  const char* op = "";      // the operator it belongs to, likewise
};

struct Engine {
  Engine();

  std::mutex mutex;
  Schedule schedule = Schedule::calibrated;
  Profile profile;
  int devices = 0;
  std::string error;  // of the last control call that failed

  Ns now = 0;                  // host clock
  std::uint64_t appended = 0;  // operations of all streams
  VectorClock done;            // what the host knows to have completed, because it synchronised
  Ns watched = 0;              // what had ended then is what watchdogs see (watchdog.h)
  std::uint64_t news = 0;      // how often that which they see has changed
  bool program_ended = false;  // they see everything
  std::uint64_t launches = 0, synchronisations = 0;
  std::int64_t launch_override = -1;
  std::size_t capacity_override = 0;   // bytes that programs can allocate; 0: the profile's
  std::optional<std::size_t> reserve;  // bytes that they cannot, in place of context and NCCL
  /// Gives each device the capacity and what is held of it, as the three above say.
  void set_memory();
  std::uint64_t seed = 0, draws = 0;  // of random
  std::uint64_t launch_queue = kLaunchQueue;

  std::deque<Stream> streams;  // by index; the first `devices` are the legacy default streams
  std::vector<Stream*> blocking_streams;  // few: PyTorch makes none
  std::vector<DeviceMemory*> memory;

  // Polling (stream.cpp): not-ready answers since the last operation was enqueued; the calls of all
  // threads; the number of the clock, of which tidemark_device_reset_clock begins a new one.
  std::uint64_t unready_polls = 0, activity = 0, epoch = 1;

  bool tracing = false;
  std::vector<TraceEntry> trace;
  std::size_t trace_most = 0, trace_left_out = 0;  // entries; 0: all are kept
  TraceNames trace_names;

  std::atomic<Data> data{Data::none};                   // no lock needed
  std::atomic<std::uint64_t> known_limit{kKnownLimit};  // bytes; no lock needed
  bool unknown_accepted = false;                        // TIDEMARK_UNKNOWN=nan; set once

  /// By name: false where there is no such schedule.
  bool set_schedule(std::string_view name);
  const char* schedule_name() const;
  /// Duration of an operation of this length under the schedule.
  Ns drawn(Ns duration);
  Ns launch_cost() const { return launch_override >= 0 ? launch_override : profile.launch; }
  /// The stream of a handle, or null. 0, 1 and 2 mean the default streams of the calling thread's
  /// device.
  Stream* find(StreamHandle handle);
  DeviceMemory& memory_of(int device) { return *memory[static_cast<std::size_t>(device)]; }
  Stream& legacy(int device) { return streams[static_cast<std::size_t>(device)]; }
  Stream& add_stream(int device, int priority, unsigned flags, bool blocking);
  /// Applies the rules of the default streams before the next operation of `s`.
  void apply_default_stream_rules(Stream& s);
  /// The host waits until the queue of `s` has room for a launch.
  void await_queue(const Stream& s);
  /// Puts one operation at the end of `s` as a launch of its own; the host has paid for it already,
  /// and waits for the queue of `s`. Returns its start.
  Ns append(Stream& s, Ns duration, std::string_view name, Kind kind = Kind::op,
            const Work& work = {});
  /// All that was put there since the last launch is one launch.
  void launched(Stream& s);
  /// Puts an operation there that is part of a launch (of a graph).
  Ns put(Stream& s, Ns duration, std::string_view name, Kind kind = Kind::op,
         const Work& work = {});
  /// Adds an entry to the trace that is kept, and to what a profiler is told.
  void trace_entry(const Stream& s, const TraceEntry& entry, const Work& work);
  /// "default stream", "stream 2 (high priority)": numbered in the order of first use since
  /// forget_numbers.
  std::string name_of(std::uint32_t stream);
  void forget_numbers();
  std::uint32_t numbered = 0;
  /// Raises `s` to come after `mark`.
  void order_after(Stream& s, const Mark& mark);
  Mark mark(Stream& s);
  Mark mark_all(int device);  // < 0: every device's
  bool is_done(const Mark& mark) const;
  /// The host has waited for this.
  void complete(const Mark& mark);
  /// The host has been told that this is done.
  void learn(const Mark& mark);
};

/// Made at the first call, never destroyed: libraries call until the very end of the process.
Engine& engine();

/// The engine and its lock, which this thread has until `lock` ends.
struct Locked {
  Engine& engine;
  std::unique_lock<std::mutex> lock;
};
inline Locked locked_at_once() { return {engine(), std::unique_lock(engine().mutex)}; }
/// Locks the engine after all calls before this one have been carried out (deferred.h).
inline Locked locked() {
  settle_if_deferring();
  return locked_at_once();
}
/// Locks the engine for a call that puts nothing into a stream; the wait has an end (deferred.h).
inline Locked locked_for_host() {
  settle_if_deferring(kNoStream);
  return locked_at_once();
}
/// And the stream of a handle, or null.
struct LockedStream {
  Engine& engine;
  std::unique_lock<std::mutex> lock;
  Stream* stream;
};
inline LockedStream locked(StreamHandle stream) {
  settle_if_deferring(stream);
  auto [e, lock] = locked_at_once();
  return {e, std::move(lock), e.find(stream)};
}

/// The calling thread's device.
int& current_device();

/// Waits (lock not held) until the host functions ordered before `mark` have run.
void await_callbacks(const VectorClock& clock);
bool callbacks_pending(const VectorClock& clock);

/// Host synchronisation with `mark`, lock held by `lock`.
void synchronise_with(std::unique_lock<std::mutex>& lock, const Mark& mark);
/// True if the calling thread gives the device work, and whether it is to be told that this is
/// done.
bool drives_device(const Engine& e);
/// True if it has ever given it work in this process, on any clock (no lock needed).
bool has_driven_device();
bool seems_done(Engine& e, const Mark& mark);
/// Comes before a query, with no lock held: a thread that gives the device work waits a while for
/// the partners of its collectives.
void before_poll();
/// Answers a query about `mark`: costs the host time, so that a polling program gets on.
bool poll(std::unique_lock<std::mutex>& lock, const Mark& mark);
/// Says that this thread drives the device; polls of threads that never do leave the clock alone.
void count_activity(Engine& e, bool enqueued);
/// The host puts an operation into a stream.
void pay_launch(Engine& e);

/// Operator brackets (operation.cpp): copies and the like report the bytes that they have charged
/// themselves.
void charge_in_bracket(Stream& s, double bytes, bool real_work);
/// The host has waited for `mark` (lock held).
void note_wait(const Mark& mark);

/// True if this thread is in the bracket of an operator.
bool inside_operator();
/// The operator that this thread is in, by its bracket or by race detection; or "".
std::string_view current_operator();

/// Every record is at time 0 now (lock held).
void reset_event_times();

/// Kernel launch counts to zero.
void reset_kernel_counts();

}  // namespace tidemark::device
