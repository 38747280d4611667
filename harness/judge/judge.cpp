#include "harness/judge/judge.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>

#include "harness/judge/counts.h"
#include "harness/judge/saving.h"
#include "harness/record/verdict_kind.h"

namespace tidemark {
namespace {

constexpr double kUnmeasured = std::numeric_limits<double>::quiet_NaN();

/// Within so large a relative tolerance half of a number passes for it.
constexpr double kProvesNothing = 0.5;

void skip(Verdict& verdict, const std::string& why) {
  verdict.status = Status::skip;
  verdict.why = why;
}

/// The verdict on the run of a variant as a whole; skipped until its status is set.
Verdict of_run(const RankResult& seen) {
  const bool control = seen.variant->role == Role::control;
  return {.name = control ? "control/" + seen.variant->caught_by : "run",
          .variant = seen.variant->name,
          .rank = seen.record.rank};
}

}  // namespace

std::string verdict_name(const Expectation& expectation) {
  const std::string basis = name_of(expectation.basis);
  if (!expectation.moment.empty()) return "trajectory/" + basis + "/" + expectation.moment;
  return "memory/" + basis + "/" + figure_name(expectation);
}

std::string figure_name(const Expectation& expectation) {
  if (!expectation.moment.empty()) return "trajectory/" + expectation.moment;
  return std::string(name_of(expectation.statistic)) + "/" + expectation.phase +
         (expectation.at_end ? "/end" : "");
}

double measured(const RankRecord& record, const Expectation& expectation) {
  if (!expectation.moment.empty()) {
    const Moment* moment = record.moment(expectation.moment);
    if (moment == nullptr) return kUnmeasured;
    return static_cast<double>(expectation.statistic == Statistic::requested ? moment->requested
                                                                             : moment->allocated);
  }
  const Phase* phase = record.phase(expectation.phase);
  if (phase == nullptr) return kUnmeasured;
  const Level& level = (*phase)[expectation.statistic];
  return static_cast<double>(expectation.at_end ? level.end : level.peak);
}

namespace {

struct Judge {
  const Scenario& scenario;
  const Trial& trial;
  const Oracle* oracle;
  const RankResult* baseline = nullptr;
  const RankResult* lost = nullptr;  // the baseline that did not finish, where none did
  std::map<const RankResult*, std::vector<Expectation>> forms = {};

  Verdict memory(const RankResult& seen, const Expectation& expectation) const {
    const double expected = expectation.formula.evaluate();
    const double actual = measured(seen.record, expectation);
    const auto slack = static_cast<double>(expectation.slack);
    auto verdict = bounded(verdict_name(expectation), expected, expected + slack, actual,
                           expectation.formula.text);
    verdict.values = expectation.formula.values;
    verdict.slack = slack;
    verdict.why = expectation.why;
    if (!expectation.where.empty())
      verdict.why = std::string("highest moment of the ") +
                    (expectation.basis == Basis::form ? "form: " : "replay: ") + expectation.where +
                    (verdict.why.empty() ? "" : "; ") + verdict.why;
    if (std::isnan(actual))
      verdict.why = expectation.moment.empty()
                        ? "the program has no phase '" + expectation.phase + "'"
                        : "the program has no moment '" + expectation.moment + "'";
    if (expectation.slack * kSharpness > expectation.unit) {
      verdict.status = Status::fail;
      verdict.why = "the bound is wider than an eighth of its smallest unit: it proves nothing";
    }
    return verdict;
  }

  std::vector<Verdict> rest(const RankResult& seen) const {
    if (scenario.leak) {
      const Formula leak = scenario.leak(trial, *seen.variant, seen.record.rank);
      if (leak.text != "0")
        return {tidemark::equal(
            "rest/leak", leak,
            static_cast<double>(seen.record.rest_after - seen.record.rest_before), "bytes")};
    }
    std::vector<Verdict> verdicts;
    auto before = static_cast<double>(seen.record.rest_before);
    verdicts.push_back(bounded("rest/held", before, before,
                               static_cast<double>(seen.record.rest_after),
                               "held before the step"));
    const Formula held =
        scenario.held ? scenario.held(trial, *seen.variant, seen.record.rank) : Formula{"0", {}};
    for (const MemoryKind transient : kGoneAfterStep) {
      const auto category = seen.record.categories.find(transient);
      const double left =
          category == seen.record.categories.end() ? 0 : static_cast<double>(category->second.end);
      verdicts.push_back(
          bounded(std::string("rest/") + name_of(transient), 0, held.evaluate(), left, held.text));
      verdicts.back().values = held.values;
    }
    return verdicts;
  }

  // The shares of the categories are an account: they must add up to the peak that the allocator
  // reports.
  Verdict shares(const RankResult& seen) const {
    Bytes sum = 0;
    for (const auto& [name, category] : seen.record.categories) sum += category.peak_share;
    const auto peak = static_cast<double>(seen.record.peak(Statistic::allocated));
    return bounded("account/shares", peak, peak, static_cast<double>(sum),
                   "highest allocated of all phases");
  }

  Verdict equal(const std::string& name, const Difference& difference,
                std::int64_t elements) const {
    auto verdict = bounded(name, 0, 0, difference.equal ? 0 : std::max(difference.ulps, 1.0),
                           "the same bits as " + baseline->variant->name);
    verdict.unit = "ulp";
    if (!difference.equal) verdict.why = "first difference: " + difference.where;
    compared(verdict, difference, elements);
    return verdict;
  }

  Verdict close(const std::string& name, const Difference& difference,
                std::int64_t elements) const {
    const double tolerance = difference.allowed;
    auto verdict =
        bounded(name, 0, tolerance, difference.relative, "|measured - reference| / |reference|");
    verdict.unit = "relative";
    verdict.slack = tolerance;
    verdict.why = "nearest to its tolerance: " + difference.worst + "; " + oracle->why;
    if (verdict.status == Status::fail)
      verdict.why = "worst: " + difference.worst + "; first difference: " + difference.where;
    if (tolerance >= kProvesNothing)
      skip(verdict,
           fmt::format("the numbers of this trial are so uncertain ({:.2g} of them, at {}) "
                       "that they prove nothing; set a smaller size or fp32",
                       tolerance, difference.worst));
    compared(verdict, difference, elements);
    return verdict;
  }

  // All of both sides is compared, or it proves nothing.
  static void compared(Verdict& verdict, const Difference& difference, std::int64_t elements) {
    if (difference.compared == elements || verdict.status == Status::fail) return;
    verdict.status = Status::fail;
    verdict.why = fmt::format("{} of {} were compared", difference.compared, elements);
  }

  // Shards of the baseline that this variant lacks are a difference as well.
  static Difference both_ways(const std::string& what, const std::vector<Shard>& mine,
                              const std::vector<Shard>& theirs) {
    Difference difference = compare_shards(what, mine, theirs);
    const Shard* lost = missing_from(mine, theirs);
    if (lost == nullptr || !difference.equal) return difference;
    difference.equal = false;
    difference.ulps = std::numeric_limits<double>::infinity();
    difference.where = what + " of " + lost->name + " is missing on this side";
    return difference;
  }

  std::vector<Verdict> parity(const RankResult& seen) const {
    std::vector<Verdict> verdicts;
    if (trial.mode == Mode::shapes) return verdicts;
    const Numbers& mine = seen.numbers;
    const auto losses = static_cast<std::int64_t>(trial.steps);
    const std::int64_t gradients = elements_of(mine.gradients),
                       parameters = elements_of(mine.parameters);
    if (baseline != nullptr && &seen != baseline) {
      const Numbers& theirs = baseline->numbers;
      verdicts.push_back(
          equal("parity/baseline/loss", compare_losses(mine.loss, theirs.loss), losses));
      verdicts.push_back(equal("parity/baseline/gradients",
                               both_ways("gradient", mine.gradients, theirs.gradients), gradients));
      verdicts.push_back(equal("parity/baseline/parameters",
                               both_ways("parameter", mine.parameters, theirs.parameters),
                               parameters));
    }
    if (oracle != nullptr) {
      std::vector<LossPoint> loss;
      for (std::size_t i = 0; i < oracle->loss.size(); ++i)
        loss.push_back({static_cast<int>(i), oracle->loss[i]});
      verdicts.push_back(close("parity/reference/loss",
                               compare_losses(mine.loss, loss, {oracle->loss_tolerance}), losses));
      verdicts.push_back(close("parity/reference/gradients",
                               compare_shards("gradient", mine.gradients, oracle->gradients,
                                              {oracle->gradient_tolerance}),
                               gradients));
      verdicts.push_back(
          close("parity/reference/parameters",
                compare_shards("parameter", mine.parameters, oracle->parameters,
                               {oracle->parameter_tolerance, &oracle->parameter_scales}),
                parameters));
      // What no rank has is compared by none of the verdicts above.
      const char* every = "every element of the reference's tensors is on some rank";
      verdicts.push_back(counted("parity/count/gradients", elements_of(oracle->gradients),
                                 seen.held_gradients, "elements", every));
      verdicts.push_back(counted("parity/count/parameters", elements_of(oracle->parameters),
                                 seen.held_parameters, "elements", every));
    }
    return verdicts;
  }

  Verdict races(const RankResult& seen) const {
    auto verdict = bounded("race/none", 0, 0, static_cast<double>(seen.record.races.size()), "0");
    verdict.unit = "races";
    if (!seen.record.races.empty()) verdict.why = seen.record.races.front().explanation;
    return verdict;
  }

  std::string no_baseline() const {
    return "not judged: no baseline (" + lost->variant->name + " did not finish)";
  }

  // All that would have been compared with the baseline.
  std::vector<Verdict> unjudged(const RankResult& seen) const {
    std::vector<Verdict> verdicts;
    if (lost == nullptr) return verdicts;
    if (seen.variant->role != Role::baseline) {
      const auto before = expectations(scenario, trial, *lost->variant, seen.record.rank);
      verdicts = savings(trial, *lost, before, seen, forms.at(&seen));
    }
    if (trial.mode == Mode::math)
      for (const char* what : {"loss", "gradients", "parameters"})
        verdicts.push_back({.name = std::string("parity/baseline/") + what,
                            .formula = "the same bits as " + lost->variant->name,
                            .unit = "ulp"});
    for (Verdict& verdict : verdicts) {
      verdict.measured.reset();
      skip(verdict, no_baseline());
    }
    return verdicts;
  }

  std::vector<Verdict> everything(const RankResult& seen) const {
    std::vector<Verdict> verdicts;
    auto add = [&](std::vector<Verdict> more) {
      std::ranges::move(more, std::back_inserter(verdicts));
    };
    for (const auto& expectation : forms.at(&seen)) verdicts.push_back(memory(seen, expectation));
    if (const std::string why = unfollowed_settings(); !why.empty())
      verdicts.push_back({.name = "memory/settings", .why = why});
    verdicts.push_back(shares(seen));
    if (seen.variant->role != Role::baseline && baseline != nullptr)
      add(savings(trial, *baseline, forms.at(baseline), seen, forms.at(&seen)));
    add(unjudged(seen));
    add(rest(seen));
    add(parity(seen));
    verdicts.push_back(races(seen));
    if (scenario.inspect) add(scenario.inspect(trial, *seen.variant, seen.record));
    for (auto& verdict : verdicts) {
      verdict.variant = seen.variant->name;
      verdict.rank = seen.record.rank;
      leave_open(seen, verdict);
    }
    return verdicts;
  }

  // Why the GPU could not be kept behind the host, where it could not; verdicts that depend on the
  // run-ahead are then skipped.
  std::string unheld(const RankResult& seen) const {
    if (!seen.record.unheld.empty() || baseline == nullptr) return seen.record.unheld;
    return baseline->record.unheld;
  }
  void leave_open(const RankResult& seen, Verdict& verdict) const {
    const VerdictKind kind = kind_of(verdict);
    const bool of_both = kind == VerdictKind::saving;
    const bool lags = kind == VerdictKind::trajectory || kind == VerdictKind::memory;
    const std::string why = of_both ? unheld(seen) : lags ? seen.record.unheld : "";
    if (!why.empty()) skip(verdict, why);
  }

  /// A control is caught where a verdict of its declared kind fails.
  Verdict caught(const RankResult& seen) const {
    Verdict verdict = of_run(seen);
    verdict.unit = "verdicts";
    verdict.formula = "at least one verdict " + seen.variant->caught_by + "... fails for it";
    verdict.low = 1;
    if (trial.mode == Mode::shapes &&
        verdict_kind(seen.variant->caught_by) == VerdictKind::parity) {
      skip(verdict, "needs numbers (--mode math)");
      return verdict;
    }
    double failed = 0;
    for (const auto& each : everything(seen)) {
      if (each.status != Status::fail || !each.name.starts_with(seen.variant->caught_by)) continue;
      // The first few tell the story: which numbers agree, which are off, and from where on.
      if (failed++ >= 3) continue;
      verdict.why += (failed == 1 ? "caught by " : "; ") + each.name +
                     (each.why.empty() ? "" : ": " + each.why);
    }
    verdict.measured = failed;
    verdict.status = failed > 0 ? Status::pass : Status::fail;
    if (failed > 0) return verdict;
    verdict.why = "this wrong fix went unnoticed";
    if (scenario.unseen)
      if (const auto why = scenario.unseen(trial, *seen.variant, seen.record.rank); !why.empty())
        skip(verdict, why);
    if (lost != nullptr) skip(verdict, no_baseline());
    if (!seen.record.unheld.empty()) skip(verdict, seen.record.unheld);
    return verdict;
  }
};

}  // namespace

std::vector<Verdict> judge(const Scenario& scenario, const Trial& trial,
                           const std::vector<RankResult>& seen, const Oracle* oracle) {
  Judge court{scenario, trial, oracle};
  for (const auto& each : seen) {
    if (each.ran())
      court.forms[&each] = expectations(scenario, trial, *each.variant, each.record.rank);
    if (each.variant->role != Role::baseline) continue;
    if (each.ran() && court.baseline == nullptr) court.baseline = &each;
    if (!each.error.empty() && court.lost == nullptr) court.lost = &each;
  }
  if (court.baseline != nullptr) court.lost = nullptr;
  std::vector<Verdict> verdicts;
  for (const auto& each : seen) {
    if (!each.error.empty()) {
      auto verdict = of_run(each);
      verdict.status = Status::fail;
      verdict.formula = "it runs to its end";
      verdict.why = each.error;
      verdicts.push_back(verdict);
    } else if (!each.skipped.empty()) {
      verdicts.push_back(of_run(each));
      verdicts.back().why = each.skipped;
    } else if (each.variant->role == Role::control) {
      verdicts.push_back(court.caught(each));
    } else {
      std::ranges::move(court.everything(each), std::back_inserter(verdicts));
    }
  }
  return verdicts;
}

}  // namespace tidemark
