// The virtual GPU under the libraries of this folder: cudart, the driver, NCCL and cuBLAS are thin
// translations of NVIDIA's calls into these. Thread-safe. Time is virtual, in whole nanoseconds,
// and depends on the program alone.
//
// Two clocks meet here. The host clock moves when the host calls (a launch costs it a little, a
// synchronisation moves it to the end of what was waited for). Every stream has a tail: when its
// last operation ends. Besides its times, every operation has a place in a vector clock (stream ->
// how many of its operations are ordered before), which says what is ordered before what, whatever
// the durations are.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

struct CUstream_st;
struct CUevent_st;

#pragma GCC visibility push(default)
namespace tidemark::device {

using Ns = std::int64_t;
using StreamHandle =
    CUstream_st*;  // cudaStream_t = CUstream; 0 legacy, 1 legacy, 2 per-thread default
using EventHandle = CUevent_st*;

/// When an operation counts as done.
///   instant     when it is enqueued
///   calibrated  when the host clock has reached its end (durations from the profile)
///   lagging     when the host has synchronised with it or with something ordered after it: nothing
///   completes by itself
///   random      as calibrated, with durations drawn anew from a seed: from nothing to sixty-four
///   times the profile's
enum class Schedule { instant, calibrated, lagging, random };

/// Element types as the cost model knows them.
enum class Number { f64, f32, tf32, f16, bf16, f8, i8, other };

/// The cost of one operation by the roofline: max(flops / rate(number), bytes / memory bandwidth) +
/// launch latency.
struct Cost {
  double flops = 0;
  Number number = Number::f32;
  double bytes = 0;  // device memory read + written
};

// --- operations
// -----------------------------------------------------------------------------------------------------

/// Enqueues one kernel-like operation (costs the host one launch). `name` is copied into the trace
/// when one is kept.
void enqueue(StreamHandle stream, std::string_view name, const Cost& cost);

/// For operations that several ranks share: the earliest time at which the next operation of this
/// stream can start (costs the host one launch), and, once the participants have agreed, its start
/// and end. On `instant` and `lagging` the times are agreed all the same; only completion differs.
Ns begin_collective(StreamHandle stream);
void end_collective(StreamHandle stream, std::string_view name, Ns start, Ns end);

/// Comes before the collectives of a group, with no lock held: the watchdogs of PyTorch's process
/// groups see those that have ended before (watchdog.h).
void before_collectives();

/// The last operation of this stream, a collective, reads or writes these bytes of device or pinned
/// memory: for race detection, and for what waits for a watchdog.
void note_access(StreamHandle stream, std::string_view name, const void* address, std::size_t bytes,
                 bool write);

Ns host_now();

// --- memory
// ---------------------------------------------------------------------------------------------------------

/// The device that owns this address, or -1 (host memory, or memory of no virtual device).
int device_of(const void* address);
/// True if bytes move at present: data is on for the process and not suspended on this thread.
/// Every function that copies, sets, reduces or sends real bytes asks here first.
bool data_moves();
/// The product of two sparse matrices that this thread works on (tidemark_device_sparse_product).
struct SparseProduct {
  std::int64_t entries = -1, products = -1;  // < 0: not known
};
SparseProduct sparse_product();
/// The answer that tidemark_device_answer_reads has set on this thread, or null.
const std::int64_t* answer_to_reads(std::size_t bytes);

// --- what the libraries report
// --------------------------------------------------------------------------------------

/// Says once per process and name, on stderr, that `function` of `library` is not modelled. The
/// caller returns its library's own "not supported".
void not_supported(const char* library, const char* function);

struct Links {         // of the profile, for the ring model
  double nvlink_gbps;  // one direction, per GPU, GB/s
  double network_gbps;
  Ns nvlink_latency, network_latency;
  int ranks_per_node;
};
Links links();

/// Profile and schedule, in words: "GPU profile h100-80g (figures 1f2e3d4c), schedule calibrated".
std::string clock_setting();

}  // namespace tidemark::device
#pragma GCC visibility pop
