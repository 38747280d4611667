// The record of one rank of a variant: plain data, no libtorch.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/memory_history.h"
#include "harness/record/memory_kind.h"
#include "harness/record/words.h"

namespace tidemark {

/// PyTorch's four: allocated (held by tensors), active (allocated, or freed but still awaiting a
/// stream), reserved (taken from the device), requested (what was asked for, before rounding).
enum class Statistic { allocated, active, reserved, requested };
inline constexpr std::array kStatistics{Statistic::allocated, Statistic::active,
                                        Statistic::reserved, Statistic::requested};

constexpr auto words(Statistic) {
  return std::array{"allocated", "active", "reserved", "requested"};
}

struct Level {
  Bytes peak = 0;  // highest within the phase, its first moment included
  Bytes end = 0;   // at the phase's end
  bool operator==(const Level&) const = default;
};
using Levels = std::array<Level, 4>;  // by Statistic

struct Phase {
  std::string name;
  Levels levels;
  const Level& operator[](Statistic s) const { return levels[static_cast<std::size_t>(s)]; }
  Level& operator[](Statistic s) { return levels[static_cast<std::size_t>(s)]; }
  bool operator==(const Phase&) const = default;
};

/// Residency at a moment that the program names (trajectory verdicts).
struct Moment {
  std::string name;
  Bytes allocated = 0, requested = 0;
  bool operator==(const Moment&) const = default;
};

/// Something the program did to a named unit ("unshard", "unit 3"), in order (order verdicts).
struct Call {
  std::string op, unit;
  bool operator==(const Call&) const = default;
};

struct Step {
  std::vector<Phase> phases;
  std::vector<Moment> moments;
  std::vector<Call> calls;
  /// Collectives that the step has launched, by operation: their number, and the bytes of
  /// their whole tensors (of what is gathered, reduced or sent).
  std::map<std::string, std::int64_t> collectives = {}, collective_bytes = {};
  bool operator==(const Step&) const = default;
};

/// Share of a kind in the step's highest allocated moment, and what is left of it at the end, in
/// bytes of the allocator's blocks. The shares sum to that peak exactly.
struct Category {
  Bytes peak_share = 0;
  Bytes end = 0;
};

struct Counters {
  std::int64_t num_alloc_retries = 0, num_ooms = 0, num_device_alloc = 0, num_device_free = 0,
               num_sync_all_streams = 0;
  std::int64_t launches = 0, synchronisations = 0;  // since the variant began
  std::map<std::string, std::int64_t> collectives;  // calls by operation
};

struct Access {
  std::string op, stream;
  std::int64_t span = -1;  // its place in the rank's spans; -1: before the last step, or left out
};
struct Race {
  Access first, second;
  Bytes bytes = 0;
  std::string explanation;
  std::string kind = {};  // "freed": a use of freed memory; "race"; "within" one operator
};

/// Memory over time, in the order of the allocator's events.
struct Sample {
  Ns time = 0;  // host clock
  Bytes allocated = 0, active = 0, reserved = 0;
};

/// A block of memory, alive at some moment: held by tensors, or freed and awaiting its streams.
struct AliveBlock {
  Bytes bytes = 0, requested = 0;
  MemoryKind category = MemoryKind::other;
  std::string op;  // that allocated it; empty where operators were not followed (layout.h)
  std::vector<std::int64_t> shape;  // of the first tensor that lay on it, with its type;
  std::string dtype;                // empty where there was none
  std::string stream;
  bool pending = false;  // its free was requested
};

enum class SpanKind { op, collective, copy, wait };
constexpr auto words(SpanKind) { return std::array{"operator", "collective", "copy", "wait"}; }

/// Something that occupied a stream, or the host (stream 0: it waited).
struct Span {
  std::uint32_t stream = 0, name = 0;  // places in Spans
  SpanKind kind = SpanKind::op;
  Ns enqueued = 0, begin = 0, end = 0;
};
/// The last step on the device's clock. The host's run-ahead at a span is begin - enqueued.
struct Spans {
  std::vector<std::string> streams, names;  // streams[0] is the host
  std::vector<Span> all;                    // in the order of enqueueing
  std::int64_t left_out = 0;                // the shortest, where there were too many
};

/// The distance of a gradient of step 0 from another one of the same parameter, at its worst
/// element of any rank. Infinite where one of the two is not a number.
struct Distance {
  double ulps = 0, absolute = 0, relative = 0;
};
struct GradientError {
  std::string name;
  std::vector<std::int64_t> shape;  // of the whole parameter
  std::optional<Distance> baseline, reference;
  std::int64_t first = -1;  // element that is the first to differ from the baseline's; -1: none
};

/// Owners of the memory that a GPU holds beyond the allocator's, as NVML tells them apart.
struct OutsideOwners {
  Bytes own = 0;        // of this process: context, NCCL, cuBLAS
  Bytes others = 0;     // in use, and not of this process
  Bytes driver = 0;     // kept by driver and firmware
  std::string unknown;  // why the three are not known; empty where they are
  bool operator==(const OutsideOwners&) const = default;
};

struct RankRecord {
  int rank = 0;
  std::vector<Step> steps;
  std::map<MemoryKind, Category> categories;  // of the last step
  Counters counters;
  std::vector<Race> races;
  std::vector<Sample> timeline;  // of the last step; thinned, the highest of every statistic kept
  std::vector<std::pair<std::string, Ns>> phase_starts;  // on the timeline's clock
  // Requested bytes of the program before and after the last step. The allocator's own figures add
  // the parts that it did not split off and blocks that a stream still uses, so they may differ
  // although the program does not.
  Bytes rest_before = 0, rest_after = 0;
  /// Bytes that the device holds beyond `reserved` when the steps have ended: context, NCCL,
  /// cuBLAS, and the memory of other processes.
  std::optional<Bytes> outside;
  std::optional<OutsideOwners> owners;  // of that, on a real GPU
  std::string unheld;  // why a real GPU was not held back under lagging, where it was not
  std::vector<AliveBlock> largest;  // at the last step's highest allocated moment, ten at most
  /// The record of the rank's memory (harness/memory/format/format.h), as a program's, packed
  /// (gzip.h); empty where it was not kept. A run's folder has it as snapshot/*.record.
  std::string memory;
  Spans spans;
  /// Allocator events of the whole run, if they were asked for: while the program was built, then
  /// of each step. No report has them; reports/events/ writes a file a rank.
  std::vector<MemoryHistory> events;
  const Phase* phase(const std::string& name) const;    // of the last step, or null
  const Moment* moment(const std::string& name) const;  // of the last step, or null
  Bytes peak(Statistic statistic) const;                // over the phases of the last step
};

}  // namespace tidemark
