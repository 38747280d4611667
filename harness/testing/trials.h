// Trials at parameters drawn at random, on one rank or among partners, as the tests of scenarios
// run them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <initializer_list>
#include <iterator>
#include <map>
#include <random>
#include <string>
#include <tuple>

#include "harness/run/runner.h"
#include "harness/testing/part.h"

namespace tidemark::testing {

/// The number of trials that a test draws: TIDEMARK_TEST_SEEDS, or `otherwise`.
inline int seeds(int otherwise) {
  const char* asked = std::getenv("TIDEMARK_TEST_SEEDS");
  return asked != nullptr ? std::atoi(asked) : otherwise;
}

/// How often a rank calls a layer in all steps and microbatches of a trial, which is what the time
/// of numbers grows with.
inline std::int64_t layer_calls(const Trial& trial) {
  std::int64_t calls = trial.steps;
  for (const char* factor : {"layers", "microbatches", "accumulation", "in_flight"})
    if (const auto own = trial.params.find(factor); own != trial.params.end())
      calls *= std::max<std::int64_t>(own->second, 1);
  return calls;
}

/// A trial of numbers costs 0.05 to 0.12 CPU s for each of its layer calls. By day it has so few
/// layers that there are at most 24 of these, or the fewest with which it fits.
inline Trial by_day(const Scenario& scenario, Trial trial) {
  const auto layers = std::ranges::find(scenario.parameters, "layers", &Parameter::name);
  if (whole() || trial.mode != Mode::math || layers == scenario.parameters.end()) return trial;
  Trial shorter = trial;
  std::int64_t& few = shorter.params.at("layers");
  while (few > layers->low && layer_calls(shorter) > 24) --few;
  while (few < trial["layers"] && !why_unfit(scenario, shorter).empty()) ++few;
  return shorter;
}

/// Random numbers in a sequence that is the same on every machine.
class Draw {
 public:
  explicit Draw(unsigned seed) : random_(seed) {}
  template <class Number>
  Number between(Number low, Number high) {
    return low + static_cast<Number>(random_() % static_cast<unsigned>(high - low + 1));
  }
  /// Numbers of every order of magnitude alike.
  std::int64_t spread(std::int64_t low, std::int64_t high) {
    const double share = static_cast<double>(random_() % 100001) / 100000;
    const double value =
        static_cast<double>(low) *
        std::pow((static_cast<double>(high) + 0.999) / static_cast<double>(low), share);
    return std::clamp(static_cast<std::int64_t>(value), low, high);
  }
  struct Square {
    std::int64_t layers, hidden;
  };
  /// Layers and a width of documented ranges, of which layers * hidden^2 is at most `most`: half of
  /// the time of many layers and half of the time of wide ones.
  Square square(Square low, Square high, std::int64_t most) {
    Square drawn{};
    const auto root = [](double value) { return static_cast<std::int64_t>(std::sqrt(value)); };
    if (between(0, 1) != 0) {
      drawn.layers = spread(low.layers, std::min(high.layers, most / (low.hidden * low.hidden)));
      drawn.hidden =
          spread(low.hidden, std::min(high.hidden, root(static_cast<double>(most / drawn.layers))));
    } else {
      drawn.hidden =
          spread(low.hidden, std::min(high.hidden, root(static_cast<double>(most / low.layers))));
      drawn.layers =
          spread(low.layers, std::min(high.layers, most / (drawn.hidden * drawn.hidden)));
    }
    return drawn;
  }
  int pick(std::initializer_list<int> from) {
    return *(from.begin() + between(0, static_cast<int>(from.size()) - 1));
  }

 private:
  std::mt19937 random_;
};

/// The first size of a scenario under the schedule instant, with some parameters of its own.
inline Trial first_size(const Scenario& scenario, int ranks, int steps, const Params& own = {},
                        Mode mode = Mode::shapes) {
  const Size& size = scenario.sizes.front();
  Trial trial{scenario.name, size.name, "instant", size.params, mode, ranks, steps, 0};
  for (const auto& [name, value] : own) trial.params.at(name) = value;
  return trial;
}

/// Options of a run of one variant alone.
inline RunOptions only(const std::string& variant) {
  return {.selected = [variant](const Variant& v) { return v.name == variant; },
          .details = Details::none};
}

/// "instant ranks=4 steps=2 hidden=8 ..."
inline std::string described(const Trial& trial) {
  std::string all = trial.schedule + " ranks=" + std::to_string(trial.ranks) +
                    " steps=" + std::to_string(trial.steps);
  for (const auto& [name, value] : trial.params) all += " " + name + "=" + std::to_string(value);
  return all;
}

/// Fails the running test for every verdict that failed. Returns how many passed, by the first part
/// of their names ("memory").
inline std::map<std::string, int> passed(const TrialRecord& record, const Trial& trial) {
  std::map<std::string, int> count;
  for (const auto& v : record.verdicts) {
    count[v.name.substr(0, v.name.find('/'))] += v.status == Status::pass;
    EXPECT_NE(v.status, Status::fail)
        << v.name << " of " << v.variant << " on rank " << v.rank << ", " << described(trial)
        << ": " << v.formula << " = " << v.low.value_or(0) << ", measured "
        << v.measured.value_or(0) << " " << v.why;
  }
  return count;
}

/// The number of verdicts that passed and begin with this prefix.
inline std::ptrdiff_t passed_of(const TrialRecord& record, const std::string& prefix) {
  return std::ranges::count_if(record.verdicts, [&](const Verdict& v) {
    return v.status == Status::pass && v.name.starts_with(prefix);
  });
}

/// The numbers of a variant by itself in the trial, as this rank has them (mode math).
inline Numbers numbers_of(const Scenario& scenario, const Trial& trial, const std::string& variant,
                          World& world) {
  Numbers result;
  RunOptions options = only(variant);
  options.numbers = [&](const Variant&, const Numbers& numbers, const Oracle&) {
    result = numbers;
  };
  const auto record = run_trial(scenario, trial, world, options);
  EXPECT_EQ(record.variants.front().error, "") << variant;
  return result;
}

/// Fails the running test where a form of requested bytes is not what the replay says. Returns how
/// many figures both have; 0 where the scenario lacks one of them.
inline int compare_on_paper(const Scenario& scenario, const Trial& trial, const Variant& variant,
                            int rank) {
  if (!scenario.forms || !scenario.replay) return 0;
  using Key = std::tuple<std::string, bool, std::string>;
  std::map<Key, double> replays;
  for (const auto& plan : scenario.replay(trial, variant, rank))
    if (plan.statistic == Statistic::requested && plan.basis == Basis::replay)
      replays[{plan.phase, plan.at_end, plan.moment}] = plan.formula.evaluate();
  int compared = 0;
  for (const auto& form : scenario.forms(trial, variant, rank)) {
    const auto plan = replays.find({form.phase, form.at_end, form.moment});
    if (form.statistic != Statistic::requested || plan == replays.end()) continue;
    ++compared;
    EXPECT_EQ(form.formula.evaluate(), plan->second)
        << form.phase << " " << form.moment << " of " << variant.name << " on rank " << rank << ", "
        << described(trial) << ": " << form.formula.text << " (" << form.where << ")";
  }
  return compared;
}

}  // namespace tidemark::testing
