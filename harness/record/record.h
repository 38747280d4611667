// The record of a run: plain data, no libtorch. The runner fills it, verdicts are made from it,
// reports/ renders it.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "harness/record/memory_kind.h"
#include "harness/record/program.h"
#include "harness/record/rank.h"

namespace tidemark {

using Params = std::map<std::string, std::int64_t>;
/// A parameter's value as users write and read it: a number, or a name where it has named values.
using Setting = std::variant<std::int64_t, std::string>;
using Settings = std::map<std::string, Setting>;
std::string setting_text(const Setting& setting);

enum class Role { baseline, fixed, control };
/// known: of Python pairs alone (harness/virtual/README.md).
enum class Mode { math, shapes, known };
enum class Status { pass, fail, skip };
constexpr auto words(Role) { return std::array{"baseline", "fixed", "control"}; }
constexpr auto words(Mode) { return std::array{"math", "shapes", "known"}; }
constexpr auto words(Status) { return std::array{"pass", "fail", "skip"}; }

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

/// Peaks of allocated, active and reserved, and the highest residency of the moments that the
/// program names; none where no closed form says, or where it was not measured.
struct Peaks {
  std::optional<Bytes> allocated, active, reserved, resident;
  bool operator==(const Peaks&) const = default;
};

/// Peaks with one parameter of the trial changed and everything else as it is.
struct GrowthPoint {
  std::int64_t value = 0;
  Peaks predicted, measured;
};
struct Growth {
  std::string parameter;
  int rank = 0;
  std::vector<GrowthPoint> points;  // ascending in value
};

/// Step times over repetitions, of rank 0's compute stream (timing.h). The spread is that of the
/// quartiles.
struct Timing {
  struct Ratio {  // to the baseline
    double median = 1, lowest = 1, highest = 1;
  };
  int repetitions = 0, samples = 0;
  Ns median = 0, low = 0, high = 0;
  std::optional<Ratio> ratio;
};

/// Comparison of a GPU's memory with the bytes that the allocator reserved on the worst rank.
/// Memory outside the allocator (context, NCCL) comes on top.
struct Fit {
  std::string profile;
  Bytes capacity = 0, reserved = 0;
  bool fits() const { return reserved <= capacity; }
};

/// A file that a run leaves beside report.json.
struct FileBeside {
  std::string what;  // details, trace, snapshot of rank N, losses
  std::string path;  // below the run's folder
  bool operator==(const FileBeside&) const = default;
};

/// partner: NCCL says that another rank has failed or has left.
enum class ErrorKind { other, out_of_memory, partner };
constexpr auto words(ErrorKind) { return std::array{"other", "out of memory", "partner"}; }

/// The exception that ended a variant on one rank.
struct RankError {
  int rank = 0;
  ErrorKind kind = ErrorKind::other;
  std::string text;   // its first line
  std::string place;  // of the program: "in a/b/c stash, step 1, after all_gather 19 of ..."
  bool operator==(const RankError&) const = default;
};
/// "TEXT [in PLACE]"
std::string error_text(const RankError& error);
/// "rank 1: TEXT [in PLACE]; rank 0: ..."
std::string errors_text(const std::vector<RankError>& errors);

struct VariantRecord {
  std::string name;
  Role role = Role::baseline;
  std::string error;  // what ended it, where it did not finish
  std::vector<LossPoint> loss;
  std::vector<Ns> step_time_ns;
  std::vector<RankRecord> ranks;
  std::vector<SweepPoint>
      sweep;  // the run-ahead curve, ascending in ratio; empty where it was not asked for
  std::vector<GradientError> gradients;  // in the order of the program's; empty in shapes
  std::string what;                      // it is, in a sentence
  std::vector<Growth> growth;            // a size parameter each; empty where it was not asked for
  std::optional<Timing> timing;          // of a real GPU
  std::string not_run = {};              // why, where the run ended before it
  std::optional<Fit> fit = {};           // of the virtual device
  std::vector<FileBeside> files = {};    // none before the run's folder is written
  std::vector<RankError> errors = {};    // those of which `error` consists; partners' come last
};

/// One assertion. `low` and `high` are none where nothing bounds that side.
struct Verdict {
  std::string name;  // parity/... memory/form/<statistic>/<phase> memory/account/...
                     // memory/replay/... saving/... trajectory/form/<moment> trajectory/account/...
                     // account/... rest/... race/... control/...
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

/// A symbol of a scenario's forms. `value` (bytes, or a number) is the one of rank 0's forms where
/// all of them agree. An amount of memory has kinds, that of most of its bytes first; a plain
/// number has none.
struct Symbol {
  std::string name, what;
  std::vector<MemoryKind> kinds = {};
  std::optional<double> value = {};
};

/// Where the waste of a scenario was seen: a public issue or pull request, or "own" without a link.
struct Source {
  std::string name;  // "pytorch/pytorch#138119"
  std::string link;  // https://...; empty: own
  std::string what;  // what it reports, in a few words
  bool operator==(const Source&) const = default;
};

/// A saving that a source publishes, and that of the same two variants in this trial.
struct PublishedFigure {
  std::string source;  // its name
  std::string what;    // of which model and layout, as far as the source says
  std::string value;   // as published: "10 %"
  std::string from, to;
  /// Highest peaks of the last step here, on the worst rank and in the scenario's own statistic;
  /// none where the variant did not run.
  std::optional<Bytes> before = {}, after = {};
  bool operator==(const PublishedFigure&) const = default;
};

/// Of a trial: what `run` takes, what a rank records and what a reader reads.
inline constexpr int kMostTrialSteps = 100'000;

struct TrialRecord {
  std::string scenario, size, schedule;
  Mode mode = Mode::shapes;
  int ranks = 1, steps = 0;
  std::uint64_t seed = 0;
  Settings params;
  std::string skipped;  // the reason, where the trial did not run
  std::vector<VariantRecord> variants;
  std::vector<Verdict> verdicts;
  std::string story;                           // of the scenario
  std::string kept;                            // by what, or how long, in a few words
  std::vector<Source> seen;                    // where
  std::vector<PublishedFigure> published;      // that the trial can stand beside
  Statistic statistic = Statistic::allocated;  // in which its saving is told
  std::vector<Symbol> symbols;                 // of its forms
  std::string not_run = {};  // why the trial did not run, or not to its end; else empty
  Bytes capacity = 0;        // of each GPU that it ran on; 0: the run's
  /// The most that the closed forms say any variant reserves on any rank; none: they do not say.
  std::optional<Bytes> needs = {};
  std::optional<ProgramRecord> program = {};  // of `tidemark exec`, which has no variants
  /// Memory at the peak of a program with a report, or of a test that has failed.
  std::optional<AliveAtPeak> alive = {};
  std::string name() const;  // scenario/size/rN/mode/schedule; "program under lagging"
};
/// A trial of a program: scenario "program", size "exec".
TrialRecord program_trial(std::vector<std::string> words, Mode mode, const std::string& schedule,
                          int ranks);

/// A trial counts once: it finished (well or not), was skipped, was cut short, or never began.
enum class Course { finished, skipped, cut_short, not_run };
Course course_of(const TrialRecord& trial);

struct RunRecord {
  std::string id, started, tidemark, git, host, torch, nccl, mpi;
  std::vector<std::string> argv;
  Ns duration_ns = 0;
  std::string device_kind, profile;
  Bytes capacity_bytes = 0;  // the profile's, or what was asked for
  std::string sharing;       // which ranks have one GPU together, and how; empty: none
  std::string arithmetic;    // by which its numbers come about; empty: not said
  std::map<std::string, std::string> env;
  Bytes profile_bytes = 0;                  // of the virtual GPU's profile; 0: a real GPU
  Bytes context_bytes = 0, nccl_bytes = 0;  // outside PyTorch's allocator, at most; 0: not known
  std::string ended = {};    // how the run ended before all its trials had; empty: it did not
  bool interrupted = false;  // by a signal to the launching process (Ctrl-C)
  bool require_all = false;  // a skipped trial is a failure
  std::vector<std::string> faults = {};  // planned (TIDEMARK_FAULT) that did not happen, and why
  std::vector<Ns> trial_ns = {};         // wall time by trial; empty: not known
};

/// "tidemark 0.1.0 (1522926), torch 2.11.0, virtual (h100-80g)": alike in reports, and on ranks,
/// that become one.
std::string installation_of(const RunRecord& run);

/// The fit of a variant that ran on a virtual GPU, over all its steps.
std::optional<Fit> fit_of(const RunRecord& run, const VariantRecord& variant);

/// In the folder of a run: the session of one that has not written its report.
inline constexpr const char* kUnfinished = "unfinished";
/// In the folder of a report of pytest: the trials of its tests, as long as it has not ended.
inline constexpr const char* kTests = "tests.jsonl";

/// Exit code of `tidemark exec` where the program ended well and a check failed.
inline constexpr int kCheckFailed = 5;

struct Report {
  RunRecord run;
  std::vector<TrialRecord> trials;
  bool of_programs() const;  // all trials are of `tidemark exec`, and there is one
  int count(Status) const;   // verdicts, of every rank
  int count(Course) const;   // trials
  bool complete() const;     // every planned trial and variant ran to its end
  /// 0; 1 when a verdict failed, a planned fault did not happen or a required trial was skipped; 3
  /// when a variant ended in error or the run before its last trial; 130 when it was interrupted; 4
  /// when nothing was judged; 77 when every trial was skipped. Of programs the first one's own that
  /// is not 0, else kCheckFailed when a verdict failed, and 4 when nothing was recorded.
  int exit_code() const;

 private:
  int exit_code_of_programs() const;
};

}  // namespace tidemark
