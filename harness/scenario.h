// A scenario: one memory behaviour. Data (parameters, sizes, variants) plus the functions that make
// a variant's program on a rank, predict its memory, and compute the reference's numbers. Cases
// fill one in; the harness knows no case.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/formula.h"
#include "harness/record/record.h"

namespace tidemark {

class World;
class Recorder;

struct Parameter {
  std::string name, what;
  std::int64_t low = 0, high = 0;  // inclusive
  bool axis = false;               // an amount that peaks are drawn over (run/growth.h)
  /// The names of low, low + 1, ... high, which users write and read; empty: a number.
  std::vector<std::string> values = {};
};
/// A parameter with named values; the first one is 0.
inline Parameter choice(std::string name, std::string what, std::vector<std::string> values) {
  const auto high = std::ssize(values) - 1;
  return {std::move(name), std::move(what), 0, high, false, std::move(values)};
}
inline Parameter on_off(std::string name, std::string what) {
  return choice(std::move(name), std::move(what), {"no", "yes"});
}

struct Size {
  std::string name;
  Params params;
  std::vector<Mode> modes;  // in which it can run
  bool slow = false;        // a variant takes minutes: it is not run again for curves
  /// The parameters on a number of ranks, for a size that depends on it. Null: always `params`.
  std::function<Params(int ranks)> on_ranks = {};
  bool nightly = false;  // a further piece of the nightly suite
  int steps = 2;         // of size seed, in a suite
  /// A second small size of the smoke and the nightly suite: its parameters alone try some fix.
  bool smoke = false;

  Params params_on(int ranks) const { return on_ranks ? on_ranks(ranks) : params; }
};

struct Variant {
  std::string name;
  Role role;
  std::string what;  // one sentence
  /// Controls: the prefix of the verdict that must fail for it ("memory/", "parity/", "race/" ...).
  std::string caught_by = {};
};

/// The surroundings in which a variant of a scenario runs.
struct Trial {
  std::string scenario, size, schedule;
  Params params;
  Mode mode = Mode::shapes;
  int ranks = 1, steps = 4;
  std::uint64_t seed = 0;
  std::int64_t operator[](const std::string& name) const { return params.at(name); }
  bool operator==(const Trial&) const = default;
  /// The device is neither done at once nor held back: calibrated, random, a real GPU's own time.
  bool has_clock() const { return schedule != "instant" && schedule != "lagging"; }
};

/// A part of one named parameter (or of its gradient): elements [offset, offset + values.numel())
/// of it, flattened.
struct Shard {
  std::string name;
  std::int64_t offset = 0;
  at::Tensor values;
};

/// One variant on one rank. Built before the first step; everything it keeps between steps is its
/// resting memory.
class Program {
 public:
  virtual ~Program() = default;
  /// One training step. Says recorder.phase("forward") and so on at each phase's begin,
  /// recorder.loss(t) once, and recorder.gradients(...) when the gradients are complete. Never
  /// synchronises the host by itself.
  virtual void step(int index, Recorder& recorder) = 0;
  /// This rank's parts of the parameters.
  virtual std::vector<Shard> parameters() = 0;
};

/// The source of an expectation. `form`: a formula on paper (judge/form.h). `replay`: the plan of
/// allocations run through the allocator's model (reference/memory/allocator.h). `account`: what
/// the replay has alive at that moment, as a sum of named amounts, read off it.
enum class Basis { form, account, replay };
const char* name_of(Basis);

/// A slack is at most one part in so many of the smallest unit in its formula.
inline constexpr Bytes kSharpness = 8;

/// This statistic's peak (or end) in this phase of the last step is the formula's value on this
/// rank. With `moment`: the residency (allocated, or requested) at that moment of the program is,
/// whatever the phase.
struct Expectation {
  Statistic statistic;
  std::string phase;
  Formula formula;
  bool at_end = false;
  /// Bytes by which the measured figure may exceed the formula's; 0 is equality, the rule on the
  /// virtual device. `why` is the reason, and `unit` the smallest unit in the formula in bytes: a
  /// slack of more than an eighth of it is refused.
  Bytes slack = 0;
  std::string why = {};
  std::string moment = {};
  Basis basis = Basis::form;
  std::string where = {};  // which moment of the phase is the highest on paper or in the replay
  Bytes unit = 0;
};

/// Results of the reference: one process, double precision.
struct Oracle {
  std::vector<double> loss;       // per step, of the whole batch
  std::vector<Shard> gradients;   // step 0, whole parameters, float64 on the CPU
  std::vector<Shard> parameters;  // after the last step
  /// Largest relative errors that the arithmetic of the variants may have against it: of the loss
  /// by step, of the others by tensor (Euclidean norms).
  std::vector<double> loss_tolerance = {}, gradient_tolerance = {}, parameter_tolerance = {};
  /// In what parts errors of parameters are measured, element by element, and their tolerances
  /// without that; both empty: as they are.
  std::vector<Shard> parameter_scales = {};
  std::vector<double> plain_parameter_tolerance = {};
  std::string why = {};

  /// The same tolerance for everything.
  void allow(double tolerance, const std::string& reason) {
    loss_tolerance.assign(loss.size(), tolerance);
    gradient_tolerance.assign(gradients.size(), tolerance);
    parameter_tolerance.assign(parameters.size(), tolerance);
    why = reason;
  }
};

/// Where a waste was seen, by its number in a repository of GitHub ("owner/name"), and what it
/// reports.
Source issue(const std::string& repository, int number, const std::string& what);
Source pull_request(const std::string& repository, int number, const std::string& what);
/// A waste that is in no public report; `what` says whose idea it is.
Source own(const std::string& what);

/// A saving that a source publishes. Trials whose parameters have these values can stand beside it.
struct Published {
  PublishedFigure figure;
  Params params;
};

struct Scenario {
  std::string name, title;
  std::string story;  // what is retained, why that is needless
  /// Where it was seen. No scenario is registered without it.
  std::vector<Source> seen = {};
  std::vector<Published> published = {};
  /// What keeps the wasted memory, or how long, after the word "kept": "by the communication
  /// stream".
  std::string kept = {};
  /// The statistic in which the saving of a step is told and judged.
  Statistic statistic = Statistic::allocated;
  /// The meaning of every symbol of the forms, in a sentence each.
  std::vector<Symbol> symbols = {};
  std::vector<Parameter> parameters;
  std::vector<Size> sizes;
  std::vector<Variant> variants;
  /// The fix whose growth is drawn beside the baseline's; the first one where none is named.
  std::string drawn_fix = {};
  /// Why this trial cannot run on so many ranks (at most kMostRanks), or empty. Optional.
  std::function<std::string(const Trial&)> unfit;
  /// Why this variant has no place in this trial (nothing for a control to break), or empty; it is
  /// skipped and counted as that. Optional.
  std::function<std::string(const Trial&, const Variant&)> leave_out = {};
  std::function<std::unique_ptr<Program>(const Trial&, const Variant&, World&)> make;
  /// The forms of a variant on a rank, derived on paper. A control has those that it claims.
  std::function<std::vector<Expectation>(const Trial&, const Variant&, int rank)> forms;
  /// The trials that have these forms, if not all have them: "on two or more ranks with
  /// layout=flat".
  std::string formed = {};
  /// The results of the replay of the plan: its figures in all four statistics (Basis::replay),
  /// and their accounts where the plan's allocations have symbols (Basis::account). Optional.
  std::function<std::vector<Expectation>(const Trial&, const Variant&, int rank)> replay = {};
  /// Why this control cannot show on this rank (its own form there is the one that it claims), or
  /// empty. Optional: without it a control must show wherever it runs.
  std::function<std::string(const Trial&, const Variant&, int rank)> unseen = {};
  /// Further verdicts on a rank's record, of any variant: order of calls, counts, cost. Optional.
  std::function<std::vector<Verdict>(const Trial&, const Variant&, const RankRecord&)> inspect = {};
  /// Requested bytes that each step of this variant adds to those that its rank holds. Optional:
  /// without it, or where it is "0", a step must end with what it began with.
  std::function<Formula(const Trial&, const Variant&, int rank)> leak = {};
  /// Allocated bytes that the user of this variant holds from one step to the next, of kinds that
  /// else go with their step (kGoneAfterStep). Optional: without it, or where it is "0", none.
  std::function<Formula(const Trial&, const Variant&, int rank)> held = {};
  std::function<Oracle(const Trial&)> reference;
};

/// A scenario's variants, each with the policy that makes it what it is.
template <class Policy>
class VariantTable {
 public:
  struct Row {
    Variant variant;
    Policy policy;
  };
  VariantTable(std::vector<Row> rows) : rows_(std::move(rows)) {}

  /// In the order of the table.
  std::vector<Variant> list() const {
    std::vector<Variant> all;
    for (const auto& row : rows_) all.push_back(row.variant);
    return all;
  }
  /// Gives the scenario the variants, of which program(trial, policy, world) makes the programs.
  /// The table outlives it.
  template <class Make>
  void put_into(Scenario& scenario, Make program) const {
    scenario.variants = list();
    scenario.make = [this, program](const Trial& trial, const Variant& variant, World& world) {
      return program(trial, (*this)[variant.name], world);
    };
  }
  /// Throws std::out_of_range for a name that it does not have.
  const Policy& operator[](const std::string& variant) const {
    for (const auto& row : rows_) {
      if (row.variant.name == variant) return row.policy;
    }
    throw std::out_of_range("there is no variant " + variant);
  }

 private:
  std::vector<Row> rows_;
};

/// The forms and replays of the scenarios are tested on at most so many ranks.
inline constexpr int kMostRanks = 64;
/// Why this trial cannot run (too many ranks, or what the scenario says), or empty.
std::string why_unfit(const Scenario& scenario, const Trial& trial);

/// Why expectations are of requested bytes alone here, or empty: settings of PyTorch's allocator
/// (PYTORCH_ALLOC_CONF) that change how it rounds, splits, collects or makes segments, which
/// Vocabulary (judge/form.h) and the model of the allocator do not follow.
std::string unfollowed_settings();
/// The forms on paper; none where the scenario has no forms.
std::vector<Expectation> forms_of(const Scenario& scenario, const Trial& trial,
                                  const Variant& variant, int rank);
/// Forms first, then the replay's.
std::vector<Expectation> expectations(const Scenario& scenario, const Trial& trial,
                                      const Variant& variant, int rank);

/// Those of the expectations that are sums of named amounts: forms, then accounts.
std::vector<Expectation> sums_of(const Scenario& scenario, const Trial& trial,
                                 const Variant& variant, int rank);

/// The values as users write and read them, with names where the parameter has them.
Settings settings_of(const Scenario& scenario, const Params& params);

/// The scenarios of a registry. Throws std::logic_error where one does not say where its waste was
/// seen, or has a figure of a source or of a variant that it does not name.
std::vector<Scenario> registered(std::vector<Scenario> all);

/// The registry: every case adds its scenario in scenario.cpp's one exported function
/// (cases/CMakeLists.txt makes the list).
const std::vector<Scenario>& scenarios();

}  // namespace tidemark
