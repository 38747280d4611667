// The forms and accounts of every scenario: each symbol is explained, a form with one thing wrong
// fails, and so do the accounts of a plan with one allocation wrong. The forms' mutants are
// generated from their texts; trials are the sizes themselves and sizes drawn at random around
// them.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <set>

#include "harness/device/platform.h"
#include "harness/judge/judge.h"
#include "harness/judge/saving.h"
#include "harness/record/terms.h"
#include "harness/testing/mutants.h"
#include "harness/testing/trials.h"
#include "reference/memory/allocator.h"

namespace tidemark {
namespace {

class Forms : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    at::globalContext().lazyInitDevice(at::kCUDA);
    set_race_detection(false);  // the trials of the suites look for them
    set_capacity(Bytes{64} << 40);
  }
  const Scenario& scenario() const {
    return *std::ranges::find(scenarios(), GetParam(), &Scenario::name);
  }
  Trial trial(const Size& size, int ranks) const {
    return {GetParam(), size.name, "lagging", size.params, Mode::shapes, ranks, 2, 0};
  }
};

/// Trials drawn around a size: amounts from half to three times, choices among all there are.
class Draw : public testing::Draw {
 public:
  using testing::Draw::Draw;
  Trial around(const Trial& trial, const Scenario& scenario) {
    return drawn(trial, scenario,
                 [this](std::int64_t value) { return between(value / 2, 3 * value); });
  }
  /// Amounts halved up to twelve times, each for itself: proportions that no size has.
  Trial below(const Trial& trial, const Scenario& scenario) {
    return drawn(trial, scenario, [this](std::int64_t value) { return value >> between(0, 12); });
  }
  /// Amounts from half to three times, and every choice as it is.
  Trial alike(const Trial& trial, const Scenario& scenario) {
    const auto change = [this](std::int64_t value) { return between(value / 2, 3 * value); };
    return drawn(trial, scenario, change, /*choices=*/false);
  }

 private:
  template <class Change>
  Trial drawn(Trial trial, const Scenario& scenario, const Change& change, bool choices = true) {
    constexpr int kRanks[] = {1, 2, 3, 4, 8};
    const auto center = trial.params;
    do {
      trial.ranks = kRanks[between(0, 4)];
      trial.steps = between(2, 4);
      trial.schedule = between(0, 1) == 0 ? "instant" : "lagging";
      trial.params = center;
      for (const auto& p : scenario.parameters) {
        auto& value = trial.params[p.name];
        const bool choice = p.high - p.low < 8 || !p.values.empty();
        if (between(0, 2) == 0 || (choice && !choices)) continue;
        value = choice ? between(p.low, p.high)
                       : std::clamp<std::int64_t>(change(value), p.low, p.high);
      }
    } while (!why_unfit(scenario, trial).empty());
    return trial;
  }
};

struct Count {
  int forms = 0, tried = 0, killed = 0, equal = 0, within = 0;
};

bool holds(const Expectation& form, double value, double measurement) {
  return measurement >= value && measurement <= value + static_cast<double>(form.slack);
}

bool holds(const Expectation& form, double measurement) {
  return holds(form, form.formula.evaluate(), measurement);
}

/// The variants but controls for which `sums` gives any, on one rank, without its partners.
TrialRecord alone(const Scenario& scenario, const Trial& trial, int rank, auto sums) {
  World world(rank, trial.ranks);
  RunOptions options{.details = Details::none};
  options.selected = [&](const Variant& v) {
    return v.role != Role::control && !sums(scenario, trial, v, rank).empty();
  };
  return run_trial(scenario, trial, world, options);
}

// Against what one rank has measured.
void attack(const Scenario& scenario, const Trial& trial, int rank, Count& count) {
  const auto record = alone(scenario, trial, rank, forms_of);
  const auto what = testing::described(trial);
  for (const auto& variant : scenario.variants) {
    const auto own = std::ranges::find(record.variants, variant.name, &VariantRecord::name);
    if (own == record.variants.end()) continue;
    EXPECT_EQ(own->error, "") << variant.name << ", " << what;
    if (own->ranks.empty()) continue;
    for (const auto& form : forms_of(scenario, trial, variant, rank)) {
      const double measurement = measured(own->ranks.front(), form);
      const double right = form.formula.evaluate();
      EXPECT_TRUE(holds(form, right, measurement))
          << verdict_name(form) << " of " << variant.name << " on rank " << rank << " of "
          << trial.ranks << ", " << what << ": " << form.formula.text << " = " << right
          << ", measured " << measurement << " (" << form.where << ")";
      ++count.forms;
      for (auto& mutant : testing::mutants(form.formula, count.equal)) {
        ++count.tried;
        const double wrong = mutant.formula.evaluate();
        if (std::abs(wrong - right) <= static_cast<double>(form.slack)) {
          ++count.within;
          continue;
        }
        const bool survives = holds(form, wrong, measurement);
        count.killed += survives ? 0 : 1;
        EXPECT_FALSE(survives) << verdict_name(form) << " of " << variant.name << ", " << what
                               << ": " << mutant.what;
      }
    }
  }
}

struct FaultCount {
  int tried = 0, killed = 0;
  int apart = 0;  // doubled, it changes nothing: it is alive at no moment that is judged
  int equal = 0;  // dropped or freed late, it changes no figure: another moment is as high
};

std::vector<Expectation> accounts_of(const Scenario& scenario, const Trial& trial,
                                     const Variant& variant, int rank) {
  auto all = sums_of(scenario, trial, variant, rank);
  std::erase_if(all, [](const auto& one) { return one.basis != Basis::account; });
  return all;
}

std::map<std::string, double> figures(const std::vector<Expectation>& all) {
  std::map<std::string, double> values;
  for (const auto& one : all)
    values[name_of(one.statistic) + (" of " + verdict_name(one))] = one.formula.evaluate();
  return values;
}

// The plan of one variant with one allocation of its last step dropped, doubled, or freed late,
// against what one rank has measured. `right`: of the plan as it is.
void attack_plan(const Scenario& scenario, const Trial& trial, const Variant& variant,
                 const RankRecord& record, std::int64_t allocation,
                 const std::vector<Expectation>& right, FaultCount& count) {
  for (const auto kind : {reference::PlanFault::doubled, reference::PlanFault::dropped,
                          reference::PlanFault::freed_late}) {
    reference::PlanFault fault{kind, allocation};
    reference::Allocator::fault = &fault;
    const auto wrong = accounts_of(scenario, trial, variant, record.rank);
    reference::Allocator::fault = nullptr;
    if (figures(wrong) == figures(right)) {
      if (kind == reference::PlanFault::doubled) {
        ++count.apart;
        return;
      }
      ++count.equal;
      continue;
    }
    ++count.tried;
    const bool survives = std::ranges::all_of(
        wrong, [&](const auto& one) { return holds(one, measured(record, one)); });
    count.killed += survives ? 0 : 1;
    EXPECT_FALSE(survives) << "allocation " << allocation << " of the plan of " << variant.name
                           << ", fault " << kind << ", " << testing::described(trial);
  }
}

// holds: cases/README.md, Predictions of memory
TEST_P(Forms, HaveSymbolsThatAreExplained) {
  std::set<std::string> explained{"unsplit"}, used{"unsplit"};  // of every account
  for (const auto& symbol : scenario().symbols) {
    EXPECT_TRUE(explained.insert(symbol.name).second) << symbol.name << " is explained twice";
    EXPECT_GT(symbol.what.size(), 4u) << symbol.name;
  }
  Draw draw(41);
  // The plan of one variant has the allocations of the trial, whichever of them its accounts show.
  int number = 0;
  const auto look = [&](const Trial& one, int ranks) {
    if (!testing::drawn(number++) || !why_unfit(scenario(), one).empty()) return;
    for (int rank = 0; rank < ranks; ++rank) {
      std::set<std::string> symbols;
      for (const auto& variant : scenario().variants)
        for (const auto& form : forms_of(scenario(), one, variant, rank))
          for (const auto& [symbol, value] : form.formula.values) symbols.insert(symbol);
      reference::PlanFault counter;
      reference::Allocator::fault = &counter;
      const bool has = !accounts_of(scenario(), one, scenario().variants.front(), rank).empty();
      reference::Allocator::fault = nullptr;
      if (has) symbols.insert(counter.symbols.begin(), counter.symbols.end());
      for (const auto& symbol : symbols) EXPECT_TRUE(explained.contains(symbol)) << symbol;
      used.merge(symbols);
    }
  };
  for (const auto& size : scenario().sizes)
    for (const int ranks : {1, 4}) look(trial(size, ranks), ranks);
  for (int i = 0; i < 60; ++i) {
    const Trial one = draw.around(trial(scenario().sizes.front(), 1), scenario());
    look(one, one.ranks);
  }
  for (const auto& size : scenario().sizes)
    for (int i = 0; i < 32; ++i) look(draw.below(trial(size, 1), scenario()), 1);
  if (!testing::whole()) return;
  for (const auto& symbol : explained) EXPECT_TRUE(used.contains(symbol)) << symbol << " is unused";
}

// Paper and plan are two derivations, and neither reads the other: they are compared with each
// other at many more parameters than a program is run with. More draws with TIDEMARK_TEST_SEEDS.
TEST_P(Forms, OfRequestedBytesAreTheReplays) {
  if (!scenario().replay) GTEST_SKIP() << GetParam() << " has no replay";
  Draw draw(29);
  int compared = 0, number = 0;
  const bool some = !scenario().formed.empty();  // trials alone have forms
  const auto compare = [&](const Trial& one) {
    const int rank = draw.between(0, one.ranks - 1);
    if (!testing::drawn(number++)) return;
    for (const auto& variant : scenario().variants) {
      if (variant.role == Role::control) continue;
      if (scenario().leave_out && !scenario().leave_out(one, variant).empty()) continue;
      compared += testing::compare_on_paper(scenario(), one, variant, rank);
      if (some && rank + 1 < one.ranks)  // which may be the only one with a form
        compared += testing::compare_on_paper(scenario(), one, variant, one.ranks - 1);
    }
  };
  const int draws = testing::seeds(50);
  for (int i = 0; i < draws && !HasFailure(); ++i) {
    const Trial first = trial(scenario().sizes.front(), 1);
    compare(some ? draw.alike(first, scenario()) : draw.around(first, scenario()));
    if (some && i % 5 == 0) compare(draw.around(first, scenario()));
    if (!some || i % 5 == 0) compare(draw.below(trial(scenario().sizes.front(), 1), scenario()));
    if (i % 10 == 0)
      compare(draw.below(trial(*std::ranges::find(scenario().sizes, "seed", &Size::name), 1),
                         scenario()));
  }
  std::printf("%s: %d figures compared\n", GetParam().c_str(), compared);
  EXPECT_GT(compared, testing::whole() ? draws * (some ? 2 : 8) : 0);
}

TEST_P(Forms, FailWithOneThingWrong) {
  Count count;
  int number = 0;
  Draw draw(20261);
  const auto seed = std::ranges::find(scenario().sizes, "seed", &Size::name);
  ASSERT_NE(seed, scenario().sizes.end());
  for (const char* schedule : {"instant", "lagging"})
    for (const int rank : {0, 3}) {
      Trial one = trial(*seed, 4);
      one.schedule = schedule;
      ASSERT_EQ(why_unfit(scenario(), one), "");
      if (testing::drawn(number++)) attack(scenario(), one, rank, count);
    }
  for (int i = 0; i < 12; ++i) {
    const Trial one = draw.around(trial(scenario().sizes.front(), 1), scenario());
    const int rank = draw.between(0, one.ranks - 1);
    if (testing::drawn(number++)) attack(scenario(), one, rank, count);
  }
  std::printf(
      "%s: %d forms; %d mutants tried, %d killed, %d within a stated bound, %d left out (equal in "
      "value)\n",
      GetParam().c_str(), count.forms, count.tried, count.killed, count.within, count.equal);
  EXPECT_EQ(count.killed + count.within, count.tried);
  if (!testing::whole()) return;  // a part may have few forms
  EXPECT_GT(count.forms, 0);
  EXPECT_LT(count.within, count.tried / 4) << "bounds too wide to tell mutants apart";
}

TEST_P(Forms, AccountsFailWithOneAllocationWrong) {
  FaultCount count;
  Draw draw(35);
  int accounts = 0;
  for (int i = 0; i < testing::seeds(4); ++i) {
    const Trial one = draw.around(trial(scenario().sizes.front(), 1), scenario());
    const int rank = draw.between(0, one.ranks - 1);
    const auto record = alone(scenario(), one, rank, accounts_of);
    int number = 0;
    for (const auto& variant : scenario().variants) {
      const auto right = accounts_of(scenario(), one, variant, rank);
      const auto own = std::ranges::find(record.variants, variant.name, &VariantRecord::name);
      if (right.empty() || own == record.variants.end() || own->ranks.empty()) continue;
      for (const auto& account : right) {
        EXPECT_TRUE(holds(account, measured(own->ranks.front(), account)))
            << verdict_name(account) << " of " << variant.name << ": " << account.formula.text;
        ++accounts;
      }
      reference::PlanFault counter;
      reference::Allocator::fault = &counter;
      accounts_of(scenario(), one, variant, rank);
      reference::Allocator::fault = nullptr;
      const auto last_step = counter.allocations - counter.allocations / one.steps;
      for (int fault = 0; fault < 12; ++fault)
        if (const auto allocation = draw.between(last_step, counter.allocations - 1);
            testing::drawn(number++))
          attack_plan(scenario(), one, variant, own->ranks.front(), allocation, right, count);
    }
  }
  if (accounts == 0) GTEST_SKIP() << "its plan has no accounts";
  std::printf(
      "%s: %d accounts; %d plans with one allocation wrong, %d killed; left out: %d equal in "
      "value, %d allocations alive at no judged moment\n",
      GetParam().c_str(), accounts, count.tried, count.killed, count.equal, count.apart);
  EXPECT_EQ(count.killed, count.tried);
  if (testing::whole()) EXPECT_GT(count.tried, count.equal) << "most faults change no figure";
}

// A scenario need not have a replay, as the smallest one has none: everything here, a run's
// verdicts and its needs go on by the forms alone.
TEST(WithoutAReplay, FormsAreHeldAndAttacked) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  Scenario scenario = *std::ranges::find(scenarios(), "ddp_bucket_view", &Scenario::name);
  scenario.replay = nullptr;
  const Trial trial = testing::first_size(scenario, 2, 2);
  Count count;
  attack(scenario, trial, 1, count);
  EXPECT_GT(count.forms, 0);
  EXPECT_EQ(count.killed + count.within, count.tried);
  const Variant& variant = scenario.variants.front();
  EXPECT_EQ(testing::compare_on_paper(scenario, trial, variant, 0), 0);
  EXPECT_TRUE(accounts_of(scenario, trial, variant, 0).empty());
  for (const auto& expected : expectations(scenario, trial, variant, 0))
    EXPECT_EQ(expected.basis, Basis::form);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& scenario : scenarios()) all.push_back(scenario.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Scenario, Forms, ::testing::ValuesIn(names()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace tidemark
