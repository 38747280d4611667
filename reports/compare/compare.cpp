#include "reports/compare/compare.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "reports/compare/hold.h"
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

class Comparer {
 public:
  Comparer(const CompareOptions& options, Comparison& out)
      : thresholds_(options.thresholds), options_(options), out_(out) {}

  void trial(const TrialPair& pair) {
    name_ = pair.name;
    narrowed_ = false;
    if (pair.base->skipped.empty() != pair.fresh->skipped.empty()) {
      const bool lost = pair.base->skipped.empty();
      turn({name_, "", {}}, "trial", lost ? "ran" : "skipped", lost ? "skipped" : "ran",
           lost ? pair.fresh->skipped : "", lost ? Effect::regression : Effect::improvement,
           kInfinite);
      ++out_.comparisons;
      return;
    }
    for (const VariantRecord& before : pair.base->variants) {
      const auto after = std::ranges::find(pair.fresh->variants, before.name, &VariantRecord::name);
      if (after == pair.fresh->variants.end()) {
        missing(name_ + " " + before.name);
        narrowed_ = true;
      } else {
        variant(before, *after);
      }
    }
    for (const VariantRecord& after : pair.fresh->variants)
      if (std::ranges::find(pair.base->variants, after.name, &VariantRecord::name) ==
          pair.base->variants.end())
        out_.fresh.push_back(name_ + " " + after.name);
    verdicts(*pair.base, *pair.fresh);
  }

  void missing(const std::string& what) {
    out_.missing.push_back(what);
    out_.incomplete = out_.incomplete || options_.require_all;
  }

  void finish() {
    for (const Threshold& threshold : options_.thresholds)
      if (!used_.contains(threshold.text)) out_.unmatched.push_back(threshold.text);
    for (const Threshold& threshold : thresholds_.all()) out_.thresholds.push_back(threshold.text);
  }

 private:
  void turn(Place place, const std::string& name, const std::string& before,
            const std::string& after, const std::string& why, Effect effect, double size) {
    const auto [at, fresh] = turns_.emplace(
        std::tuple(place.trial, place.variant, name, before, after), out_.turns.size());
    if (fresh) {
      out_.turns.push_back({std::move(place), name, before, after, why, effect, size});
      return;
    }
    Turn& known = out_.turns[at->second];
    known.place.ranks.insert(known.place.ranks.end(), place.ranks.begin(), place.ranks.end());
    if (size > known.size) known.size = size, known.why = why;
  }

  void variant(const VariantRecord& before, const VariantRecord& after) {
    ++out_.comparisons, ++out_.verdicts;
    const Place place{name_, before.name, {}};
    if (before.error.empty() != after.error.empty()) {
      const bool broke = before.error.empty();
      turn(place, "error", broke ? "ran" : "error", broke ? "error" : "ran", after.error,
           broke ? Effect::regression : Effect::improvement, kInfinite);
      return;  // the figures of half a run say nothing
    }
    if (!before.error.empty()) return;
    const bool control = before.role == Role::control && after.role == Role::control;
    std::map<std::pair<std::string, Effect>, std::size_t> seen;
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
               const std::vector<Metric>& after, bool control,
               std::map<std::pair<std::string, Effect>, std::size_t>& seen) {
    std::map<std::string, const Metric*> others;
    for (const Metric& metric : after) others.emplace(metric.name, &metric);
    const std::string where = fmt::format("{} {}{}", place.trial, place.variant,
                                          rank < 0 ? std::string() : fmt::format(" rank {}", rank));
    for (const Metric& metric : before) {
      const auto other = others.find(metric.name);
      if (other == others.end()) {
        missing(where + " " + metric.name);
        continue;
      }
      Metric held = metric;
      // Whether a wrong fix is caught is its verdicts' business; how much memory it takes nobody's.
      if (control) held.worse = Worse::neither;
      hold_metric(place, rank, held, *other->second, seen);
      others.erase(other);
    }
    for (const Metric& metric : after)
      if (others.contains(metric.name)) out_.fresh.push_back(where + " " + metric.name);
  }

  void hold_metric(const Place& place, int rank, const Metric& before, const Metric& after,
                   std::map<std::pair<std::string, Effect>, std::size_t>& seen) {
    ++out_.comparisons, ++out_.metrics;
    used_.insert(thresholds_.of(before).text);
    Outcome outcome = hold(before, after, thresholds_);
    if (!outcome.differs) return;
    if (!outcome.change) {
      ++out_.within;
      return;
    }
    Change& change = *outcome.change;
    change.place = place;
    if (rank >= 0) change.place.ranks = {rank};
    change.metric = before.name;
    change.unit = before.unit;
    change.kind = before.kind;
    change.worse = before.worse;
    change.rank = rank;
    change.threshold = thresholds_.of(before).text;
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
    std::multimap<Key, const Verdict*> others;
    for (const Verdict& v : after.verdicts) others.emplace(key(v), &v);
    std::map<std::string, std::map<std::pair<std::string, Effect>, std::size_t>> seen;
    for (const Verdict& a : before.verdicts) {
      const auto found = others.find(key(a));
      const Verdict* b = found == others.end() ? nullptr : found->second;
      if (b != nullptr) others.erase(found);
      verdict(a, b);
      if (b == nullptr) continue;
      const auto x = metric_of(a), y = metric_of(*b);
      if (x && y) hold_metric({name_, a.variant, {}}, a.rank, *x, *y, seen[a.variant]);
    }
    for (const Verdict& b : after.verdicts) {
      const auto found = others.find(key(b));
      if (found == others.end()) continue;
      others.erase(found);
      if (b.status == Status::skip || !ran(before, b.variant)) continue;
      const bool failed = b.status == Status::fail;
      turn({name_, b.variant, {b.rank}}, b.name, "absent", name_of(b.status), account(b),
           failed ? Effect::regression : Effect::changed, failed ? miss(b) : 0);
    }
  }

  void verdict(const Verdict& a, const Verdict* b) {
    ++out_.comparisons, ++out_.verdicts;
    const char* after = b == nullptr ? "absent" : name_of(b->status);
    const Place place{name_, a.variant, {a.rank}};
    if (b != nullptr && a.status == b->status) {
      if (a.low != b->low || a.high != b->high)
        turn(place, a.name, "other bounds", name_of(b->status),
             "what is expected changed, so that equal verdicts mean another thing", Effect::changed,
             0);
      return;
    }
    Effect effect = Effect::changed;
    if (b != nullptr && b->status == Status::fail) {
      effect = Effect::regression;
    } else if (b != nullptr && b->status == Status::pass) {
      effect = a.status == Status::fail ? Effect::improvement : Effect::changed;
    } else if (!narrowed_ && a.status == Status::pass) {
      effect = Effect::regression;  // no longer proved, though everything was there to prove it
    }
    turn(place, a.name, name_of(a.status), after,
         b == nullptr ? "not judged any more" : account(*b), effect,
         effect == Effect::regression && b != nullptr ? miss(*b) : 0);
  }

  static bool ran(const TrialRecord& trial, const std::string& variant) {
    return std::ranges::find(trial.variants, variant, &VariantRecord::name) !=
               trial.variants.end() ||
           std::ranges::find(trial.verdicts, variant, &Verdict::variant) != trial.verdicts.end();
  }

  Thresholds thresholds_;
  const CompareOptions& options_;
  Comparison& out_;
  std::string name_;
  bool narrowed_ = false;  // variants are missing, and with them what is judged against them
  std::set<std::string> used_;
  std::map<std::tuple<std::string, std::string, std::string, std::string, std::string>, std::size_t>
      turns_;  // ranks that turned alike are one
};

/// What most likely is the cause before what follows from it.
int order_of(const Turn& turn) {
  constexpr const char* kOrder[] = {"error", "trial", "failure/", "parity/", "race/", "memory/"};
  for (std::size_t i = 0; i < std::size(kOrder); ++i)
    if (turn.name.starts_with(kOrder[i])) return static_cast<int>(i);
  return static_cast<int>(std::size(kOrder));
}

}  // namespace

const char* name_of(Effect effect) {
  return effect == Effect::regression    ? "regression"
         : effect == Effect::improvement ? "improvement"
                                         : "changed";
}

int Comparison::count(Effect effect) const {
  return static_cast<int>(std::ranges::count(turns, effect, &Turn::effect) +
                          std::ranges::count(changes, effect, &Change::effect));
}

int Comparison::regressions() const { return count(Effect::regression) + (incomplete ? 1 : 0); }

bool Comparison::same() const {
  return turns.empty() && changes.empty() && missing.empty() && fresh.empty() && within == 0;
}

int Comparison::exit_code() const {
  if (regressions() > 0) return 1;
  return comparisons == 0 ? 4 : 0;
}

Comparison compare(const Report& base, const Report& fresh, const CompareOptions& options) {
  Comparison out;
  Comparer comparer(options, out);
  const Pairs pairs = pair_trials(base, fresh);
  for (const TrialPair& pair : pairs.trials) comparer.trial(pair);
  for (const std::string& name : pairs.missing) comparer.missing(name);
  out.fresh.insert(out.fresh.begin(), pairs.fresh.begin(), pairs.fresh.end());
  out.differently = differences(base.run, fresh.run);
  comparer.finish();
  std::ranges::stable_sort(out.turns, [](const Turn& a, const Turn& b) {
    return std::tuple(a.effect, order_of(a), -a.size) < std::tuple(b.effect, order_of(b), -b.size);
  });
  std::ranges::stable_sort(out.changes, [](const Change& a, const Change& b) {
    return std::tuple(a.effect, a.kind, -a.size) < std::tuple(b.effect, b.kind, -b.size);
  });
  return out;
}

}  // namespace tidemark
