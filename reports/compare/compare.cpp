#include "reports/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "harness/memory/places.h"
#include "harness/record/units.h"
#include "harness/record/verdict_kind.h"
#include "reports/compare/lines.h"
#include "reports/compare/pairs.h"
#include "reports/overview.h"

namespace tidemark {
namespace {

constexpr double kInfinite = std::numeric_limits<double>::infinity();

double miss(const Verdict& v) {
  if (!v.measured) return kInfinite;
  const double bound = v.high && *v.measured > *v.high ? *v.high : v.low.value_or(0);
  const double size = std::abs(*v.measured - bound) / std::abs(bound);
  return std::isnan(size) ? kInfinite : size;
}

/// "expected 3 bytes, measured 4 bytes (+1); why".
std::string account(const Verdict& v) {
  const std::string expected = expected_text(v);
  std::string out = expected.empty() ? "" : "expected " + expected + ", ";
  out += "measured " + measured_text(v);
  return v.why.empty() ? out : out + "; " + v.why;
}

/// "the prediction changed: 3 -> 4 bytes".
std::string prediction(const Verdict& a, const Verdict& b) {
  const auto exactly = [](const Verdict& v) { return v.low && v.low == v.high; };
  const std::string before = exactly(a) && a.unit == b.unit ? exact(*a.low) : expected_text(a);
  const auto or_nothing = [](const std::string& text) { return text.empty() ? "nothing" : text; };
  return fmt::format("the prediction changed: {} -> {}", or_nothing(before),
                     or_nothing(expected_text(b)));
}

/// Change of a prediction, relative to its old value.
double moved(const Verdict& a, const Verdict& b) {
  const double before = a.high.value_or(a.low.value_or(0)),
               now = b.high.value_or(b.low.value_or(0));
  const double size = std::abs(now - before) / std::abs(before);
  return std::isnan(size) ? 0 : size;
}

/// The metric with no event counted.
Metric none_of(const Metric& metric) {
  Metric out = metric;
  for (auto& value : out.values) value = 0;
  return out;
}

/// Why no variant of the trial has a record, or empty.
std::string not_there(const TrialRecord& trial) {
  if (!trial.skipped.empty()) return "skipped: " + trial.skipped;
  return course_of(trial) == Course::not_run ? "not run: " + trial.not_run : "";
}

/// Places of changes, of one variant: its ranks share one for each metric and effect.
using Seen = std::map<std::pair<std::string, Effect>, std::size_t>;

class Comparer {
 public:
  Comparer(const CompareOptions& options, Comparison& out)
      : thresholds_(options.thresholds), options_(options), out_(out) {}

  void trial(const TrialPair& pair) {
    name_ = pair.name;
    covered_.clear();
    const std::string before = not_there(*pair.base), after = not_there(*pair.fresh);
    if (!before.empty() && !after.empty()) return;
    if (!after.empty()) return missing(fmt::format("{} ({})", name_, after));
    if (!before.empty()) {
      out_.fresh.push_back(fmt::format("{} (was {})", name_, before));
      return;
    }
    for (const VariantRecord& one : pair.base->variants) {
      if (!one.not_run.empty()) continue;
      const VariantRecord* other = variant_in(*pair.fresh, one.name);
      if (other != nullptr && other->not_run.empty()) {
        variant(one, *other);
        continue;
      }
      missing(name_ + " " + one.name +
              (other == nullptr ? "" : " (not run: " + other->not_run + ")"));
      covered_.insert(one.name);
    }
    for (const VariantRecord& one : pair.fresh->variants) {
      const VariantRecord* other = variant_in(*pair.base, one.name);
      if (one.not_run.empty() && (other == nullptr || !other->not_run.empty()))
        out_.fresh.push_back(name_ + " " + one.name);
    }
    verdicts(*pair.base, *pair.fresh);
  }

  void program(const TrialRecord& before, const TrialRecord& after) {
    // A process that was killed has no peaks.
    const auto devices = [](const ProgramRecord& program) {
      std::vector<DeviceAt> all = devices_of(program);
      std::erase_if(all, [](const DeviceAt& at) { return !at.process->ended; });
      return all;
    };
    std::map<std::string, Seen> seen;
    const auto both = [&](const DeviceAt& a, const DeviceAt& b) {
      const Place place{before.name(), a.variant, {}};
      const int rank = a.process->rank.value_or(-1);
      metrics(place, rank, metrics_of(*a.device), metrics_of(*b.device), false, seen[a.variant]);
      if (a.device == &a.process->devices.front())
        metrics(place, rank, metrics_of(*a.process), metrics_of(*b.process), false,
                seen[a.variant]);
    };
    pair_items(
        devices(*before.program), devices(*after.program), &DeviceAt::name, both,
        [&](const DeviceAt& a) { missing(before.name() + ", " + a.name()); },
        [&](const DeviceAt& b) { out_.fresh.push_back(before.name() + ", " + b.name()); });
    const auto &was = before.alive, &is = after.alive;
    if (was && is)
      metrics({before.name(), "", {}}, -1, metrics_of(at_lines_of(*was, *is)), metrics_of(*is),
              false, seen["alive"]);
  }

  void programs(const Report& base, const Report& fresh) {
    using Trial = const TrialRecord*;
    pair_items(
        trials_of(base, true), trials_of(fresh, true), [](Trial one) { return one->schedule; },
        [&](Trial a, Trial b) { program(*a, *b); }, [&](Trial a) { missing(a->name()); },
        [&](Trial b) { out_.fresh.push_back(b->name()); });
  }

  void missing(const std::string& what) { out_.missing.push_back(what); }

  void finish() {
    for (const Threshold& threshold : options_.thresholds)
      if (!used_.contains(threshold.text)) out_.unmatched.push_back(threshold.text);
    for (const Threshold& threshold : thresholds_.all()) out_.thresholds.push_back(threshold.text);
  }

 private:
  void turn(Place place, const std::string& name, const std::string& before,
            const std::string& after, const std::string& why, Effect effect, double size) {
    // Verdicts that are lost for one reason are one line; the others are one for all their ranks.
    const bool lost = after == "absent" || after == "skip";
    const auto [at, fresh] =
        turns_.emplace(std::tuple(place.trial, place.variant, lost ? why : name, before, after),
                       out_.turns.size());
    if (fresh) {
      out_.turns.push_back({std::move(place), name, before, after, why, effect, size});
      named_.insert({at->second, name});
      return;
    }
    VerdictChange& known = out_.turns[at->second];
    if (named_.insert({at->second, name}).second) ++known.others;
    for (int rank : place.ranks)
      if (std::ranges::find(known.place.ranks, rank) == known.place.ranks.end())
        known.place.ranks.push_back(rank);
    if (size > known.size) known.size = size, known.why = why;
  }

  void variant(const VariantRecord& before, const VariantRecord& after) {
    const Place place{name_, before.name, {}};
    if (before.error.empty() != after.error.empty()) {
      const bool broke = before.error.empty();
      covered_.insert(before.name);
      turn(place, kEndedEarly, broke ? "ran" : "error", broke ? "error" : "ran", after.error,
           broke ? Effect::regression : Effect::improvement, kInfinite);
      return;  // the figures of half a run say nothing
    }
    if (!before.error.empty()) return;
    const bool control = before.role == Role::control && after.role == Role::control;
    Seen seen;
    metrics(place, -1, metrics_of(before), metrics_of(after), control, seen);
    for (const RankRecord& a : before.ranks) {
      const auto b = std::ranges::find(after.ranks, a.rank, &RankRecord::rank);
      if (b == after.ranks.end()) {
        missing(fmt::format("{} {} rank {}", name_, before.name, a.rank));
      } else {
        metrics(place, a.rank, metrics_of(a), metrics_of(*b), control, seen);
      }
    }
  }

  void metrics(const Place& place, int rank, const std::vector<Metric>& before,
               const std::vector<Metric>& after, bool control, Seen& seen) {
    const std::string where = fmt::format("{} {}{}", place.trial, place.variant,
                                          rank < 0 ? std::string() : fmt::format(" rank {}", rank));
    const auto compare = [&](Metric one, const Metric& other) {
      // A control is judged by its verdicts; no figure of it is better or worse.
      if (control) one.worse = Worse::neither;
      hold_metric(place, rank, one, other, seen);
    };
    pair_items(
        before, after, &Metric::name, compare,
        [&](const Metric& a) {
          a.counted ? compare(a, none_of(a)) : missing(where + " " + a.name);
        },
        [&](const Metric& b) {
          b.counted ? compare(none_of(b), b) : out_.fresh.push_back(where + " " + b.name);
        });
  }

  void hold_metric(const Place& place, int rank, const Metric& before, const Metric& after,
                   Seen& seen) {
    ++out_.metrics;
    used_.insert(thresholds_.of(before).text);
    Outcome outcome = compare_metric(before, after, thresholds_);
    if (!outcome.differs) return;
    if (!outcome.change) {
      ++out_.within;
      return;
    }
    Change& change = *outcome.change;
    change.place = place;
    if (rank >= 0) change.place.ranks = {rank};
    change.rank = rank;
    const auto [at, fresh] =
        seen.emplace(std::pair{change.metric, change.effect}, out_.changes.size());
    if (fresh) {
      out_.changes.push_back(std::move(change));
      return;
    }
    Change& known = out_.changes[at->second];
    std::vector<int> ranks = known.place.ranks;
    if (rank >= 0) ranks.push_back(rank);
    if (change.size > known.size) known = std::move(change);
    known.place.ranks = std::move(ranks);
  }

  void verdicts(const TrialRecord& before, const TrialRecord& after) {
    using Key = std::tuple<std::string, std::string, int>;
    const auto key = [](const Verdict& v) { return Key{v.variant, v.name, v.rank}; };
    std::map<std::string, Seen> seen;
    const auto both = [&](const Verdict& a, const Verdict& b) {
      ++out_.verdicts;
      if (covered_.contains(a.variant)) return;
      verdict(a, &b);
      const auto x = metric_of(a), y = metric_of(b);
      if (x && y) hold_metric({name_, a.variant, {}}, a.rank, *x, *y, seen[a.variant]);
    };
    const auto gone = [&](const Verdict& a) {
      if (!covered_.contains(a.variant)) verdict(a, nullptr);
    };
    const auto come = [&](const Verdict& b) {
      if (covered_.contains(b.variant) || b.status == Status::skip || !ran(before, b.variant))
        return;
      const bool failed = b.status == Status::fail;
      turn({name_, b.variant, {b.rank}}, b.name, "absent", name_of(b.status), account(b),
           failed ? Effect::regression : Effect::changed, failed ? miss(b) : 0);
    };
    pair_items(before.verdicts, after.verdicts, key, both, gone, come);
  }

  /// If variants are missing and that is allowed, the verdicts against them may be missing too.
  bool narrowed() const { return options_.allow_missing && !covered_.empty(); }

  void verdict(const Verdict& a, const Verdict* b) {
    const char* after = b == nullptr ? "absent" : name_of(b->status);
    const Place place{name_, a.variant, {a.rank}};
    if (b != nullptr && a.status == b->status) {
      if (a.low != b->low || a.high != b->high)
        turn(place, a.name, after, after, prediction(a, *b), Effect::changed, moved(a, *b));
      return;
    }
    Effect effect = Effect::changed;
    const bool passes = b != nullptr && b->status == Status::pass;
    if (passes && a.status == Status::fail) effect = Effect::improvement;
    // Or no longer proved, though everything was there to prove it.
    if ((b != nullptr && b->status == Status::fail) ||
        (!passes && !narrowed() && a.status == Status::pass))
      effect = Effect::regression;
    const bool skipped = b != nullptr && b->status == Status::skip && !b->why.empty();
    turn(place, a.name, name_of(a.status), after,
         b == nullptr ? "not judged any more"
         : skipped    ? b->why
                      : account(*b),
         effect, effect == Effect::regression && b != nullptr ? miss(*b) : 0);
  }

  static bool ran(const TrialRecord& trial, const std::string& variant) {
    return variant_in(trial, variant) != nullptr ||
           std::ranges::find(trial.verdicts, variant, &Verdict::variant) != trial.verdicts.end();
  }

  Thresholds thresholds_;
  const CompareOptions& options_;
  Comparison& out_;
  std::string name_;
  /// Variants of the trial that are missing or broke: that is said once, not for every verdict.
  std::set<std::string> covered_;
  std::set<std::string> used_;
  std::set<std::pair<std::size_t, std::string>> named_;  // the verdicts of a turn
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string>, std::size_t>
      turns_;  // ranks that turned alike are one
};

/// The likely cause comes before its consequences.
int order_of(const VerdictChange& turn) {
  constexpr VerdictKind kOrder[] = {VerdictKind::failure, VerdictKind::parity, VerdictKind::race,
                                    VerdictKind::memory};
  if (turn.name == kEndedEarly) return -1;
  return static_cast<int>(std::ranges::find(kOrder, verdict_kind(turn.name)) - kOrder);
}

}  // namespace

const char* name_of(Effect effect) {
  return effect == Effect::regression    ? "regression"
         : effect == Effect::improvement ? "improvement"
                                         : "changed";
}

int Comparison::count(Effect effect) const {
  return static_cast<int>(std::ranges::count(turns, effect, &VerdictChange::effect) +
                          std::ranges::count(changes, effect, &Change::effect));
}

int Comparison::regressions() const {
  return count(Effect::regression) + (allow_missing ? 0 : static_cast<int>(missing.size()));
}

bool Comparison::same() const {
  return turns.empty() && changes.empty() && missing.empty() && fresh.empty() && within == 0;
}

int Comparison::exit_code() const {
  if (comparisons() == 0 && count(Effect::regression) == 0) return 4;
  return regressions() > 0 ? 1 : 0;
}

Comparison compare(const Report& base, const Report& fresh, const CompareOptions& options) {
  Comparison out;
  out.allow_missing = options.allow_missing;
  out.same_run =
      !base.run.id.empty() && base.run.id == fresh.run.id && base.run.started == fresh.run.started;
  Comparer comparer(options, out);
  const Pairs pairs = pair_trials(base, fresh);
  for (const TrialPair& pair : pairs.trials) comparer.trial(pair);
  comparer.programs(base, fresh);
  for (const std::string& name : pairs.missing) comparer.missing(name);
  out.fresh.insert(out.fresh.begin(), pairs.fresh.begin(), pairs.fresh.end());
  out.differently = differences(base.run, fresh.run);
  comparer.finish();
  std::ranges::stable_sort(out.turns, [](const VerdictChange& a, const VerdictChange& b) {
    return std::tuple(a.effect, order_of(a), -a.size) < std::tuple(b.effect, order_of(b), -b.size);
  });
  const auto size = [](const Change& change) {  // of bytes the difference itself
    if (change.unit != "bytes" || !change.before || !change.after) return change.size;
    return std::abs(*change.after - *change.before);
  };
  std::ranges::stable_sort(out.changes, [&](const Change& a, const Change& b) {
    return std::tuple(a.effect, a.kind, -size(a)) < std::tuple(b.effect, b.kind, -size(b));
  });
  return out;
}

}  // namespace tidemark
