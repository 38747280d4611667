// What a run leaves behind: plain data, no libtorch. The runner fills it, verdicts are made from
// it, reports/ renders it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace tidemark {

using Bytes = std::int64_t;
using Ns = std::int64_t;
using Params = std::map<std::string, std::int64_t>;

enum class Role { baseline, fixed, control };
enum class Mode { math, shapes };
enum class Status { pass, fail, skip };
/// PyTorch's four: allocated (held by tensors), active (allocated, or freed but still awaiting a
/// stream), reserved (taken from the device), requested (what was asked for, before rounding).
enum class Statistic { allocated, active, reserved, requested };
inline constexpr std::array kStatistics{Statistic::allocated, Statistic::active,
                                        Statistic::reserved, Statistic::requested};

const char* name_of(Role);
const char* name_of(Mode);
const char* name_of(Status);
const char* name_of(Statistic);

struct Level {
  Bytes peak = 0;  // highest within the phase, its first moment included
  Bytes end = 0;   // at the phase's end
};
using Levels = std::array<Level, 4>;  // by Statistic

struct Phase {
  std::string name;
  Levels levels;
  const Level& operator[](Statistic s) const { return levels[static_cast<std::size_t>(s)]; }
  Level& operator[](Statistic s) { return levels[static_cast<std::size_t>(s)]; }
};

/// Residency at a moment that the program names (trajectory verdicts).
struct Moment {
  std::string name;
  Bytes allocated = 0, requested = 0;
};

/// Something the program did to a named unit ("unshard", "unit 3"), in order (order verdicts).
struct Call {
  std::string op, unit;
};

struct Step {
  std::vector<Phase> phases;
  std::vector<Moment> moments;
  std::vector<Call> calls;
};

/// Share of a category in the step's highest allocated moment, and what is left of it at the end.
/// The shares (category "rounding" included) sum to that peak exactly.
struct Category {
  std::string name;
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
};
struct Race {
  Access first, second;
  Bytes bytes = 0;
  std::string explanation;
};

/// Memory over time, in the order of the allocator's events.
struct Sample {
  Ns time = 0;  // host clock
  Bytes allocated = 0, active = 0, reserved = 0;
};

struct RankRecord {
  int rank = 0;
  std::vector<Step> steps;
  std::vector<Category> categories;  // of the last step
  Counters counters;
  std::vector<Race> races;
  std::vector<Sample> timeline;  // of the last step; thinned, the highest of every statistic kept
  std::vector<std::pair<std::string, Ns>> phase_starts;  // on the timeline's clock
  // What the program holds before the last step and after it, as requested: the allocator's figures
  // add what it left unsplit, or what a stream still uses, and may differ where the program does
  // not.
  Bytes rest_before = 0, rest_after = 0;
  const Phase* phase(const std::string& name) const;    // of the last step, or null
  const Moment* moment(const std::string& name) const;  // of the last step, or null
  Bytes peak(Statistic statistic) const;                // over the phases of the last step
};

struct LossPoint {
  int step = 0;
  std::optional<double> value;  // none in shapes
};

/// Peaks of the last step, worst rank, with kernels `ratio` times as long as the host takes to
/// launch one (so the larger, the further the host runs ahead).
struct SweepPoint {
  double ratio = 0;
  Bytes allocated = 0, active = 0, reserved = 0;
  Ns step_time_ns = 0;
};

struct VariantRecord {
  std::string name;
  Role role = Role::baseline;
  std::string error;  // what ended it, where it did not finish
  std::vector<LossPoint> loss;
  std::vector<Ns> step_time_ns;
  std::vector<RankRecord> ranks;
  std::vector<SweepPoint>
      sweep;  // the run-ahead curve, ascending in ratio; empty where it was not asked for
};

/// One assertion. `low` and `high` are none where nothing bounds that side.
struct Verdict {
  std::string name;  // parity/... memory/<statistic>/<phase> saving/... trajectory/... rest/...
                     // race/... control/...
  std::string variant;
  int rank = 0;
  Status status = Status::skip;
  std::optional<double> low, high;
  std::string formula;
  std::map<std::string, double> values;
  std::optional<double> measured;
  std::string unit = "bytes";
  double slack = 0;
  std::string why;  // why it failed, was skipped, or has a slack
};

struct TrialRecord {
  std::string scenario, size, schedule;
  Mode mode = Mode::shapes;
  int ranks = 1, steps = 0;
  std::uint64_t seed = 0;
  Params params;
  std::string skipped;  // the reason, where the trial did not run
  std::vector<VariantRecord> variants;
  std::vector<Verdict> verdicts;
  std::string name() const;  // scenario/size/rN/mode/schedule
};

struct RunRecord {
  std::string id, started, tidemark, git, host, torch, nccl, mpi;
  std::vector<std::string> argv;
  Ns duration_ns = 0;
  std::string device_kind, profile;
  Bytes capacity_bytes = 0;
  std::map<std::string, std::string> env;
};

struct Report {
  RunRecord run;
  std::vector<TrialRecord> trials;
  int count(Status) const;  // verdicts and, for skip, skipped trials
  int exit_code() const;  // 0, or 1 when a verdict failed, 3 when a variant ended in error, 4 when
                          // there is no trial
};

}  // namespace tidemark
