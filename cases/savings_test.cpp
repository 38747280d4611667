// The savings of every scenario's fixes on paper: sums of amounts that have kinds, in which nothing
// cancels.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "harness/device/platform.h"
#include "harness/judge/saving.h"
#include "harness/record/terms.h"
#include "harness/testing/trials.h"

namespace tidemark {
namespace {

class Savings : public ::testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    at::globalContext().lazyInitDevice(at::kCUDA);
    set_capacity(Bytes{64} << 40);
  }
};

/// The saving of each fix against each baseline, of a record without measured peaks.
std::vector<Verdict> savings_on_paper(const Scenario& scenario, const Trial& one) {
  std::vector<Verdict> all;
  for (const auto& baseline : scenario.variants) {
    if (baseline.role != Role::baseline) continue;
    TrialRecord record;
    for (const auto& variant : scenario.variants) {
      const bool left_out = scenario.leave_out && !scenario.leave_out(one, variant).empty();
      if (left_out || (variant.role != Role::fixed && variant.name != baseline.name)) continue;
      record.variants.push_back({.name = variant.name, .role = variant.role});
      for (int rank = 0; rank < one.ranks; ++rank) {
        record.variants.back().ranks.emplace_back();
        record.variants.back().ranks.back().rank = rank;
      }
    }
    std::ranges::move(step_savings(scenario, one, record), std::back_inserter(all));
  }
  return all;
}

/// True where no name cancels: with other values, which have no factor in common, each of them
/// changes what the formula is worth.
bool every_value_counts(Formula formula) {
  double other = 1009;
  for (auto& [name, value] : formula.values) value = std::exchange(other, other + 18);
  const double worth = formula.evaluate();
  return std::ranges::all_of(formula.values, [&](const auto& one) {
    Formula changed = formula;
    changed.values[one.first] += 1;
    return changed.evaluate() != worth;
  });
}

// holds: reports/README.md, report.html
TEST_P(Savings, AreSumsOfAmountsThatHaveKindsAndNothingCancels) {
  const Scenario& scenario = *std::ranges::find(scenarios(), GetParam(), &Scenario::name);
  int summed = 0, number = 0;
  for (const auto& size : scenario.sizes)
    for (const char* schedule : {"instant", "lagging"})
      for (const int ranks : {1, 4}) {
        const Trial one{GetParam(), size.name, schedule, size.params, Mode::shapes, ranks, 2, 0};
        if (!why_unfit(scenario, one).empty()) continue;
        if (one.ranks * testing::layer_calls(one) > 500 && !testing::drawn(number++)) continue;
        const auto symbols = symbols_of(scenario, one, 0);
        for (const Verdict& verdict : savings_on_paper(scenario, one)) {
          if (verdict.formula.empty()) continue;
          const Formula formula{verdict.formula, verdict.values};
          const auto terms = terms_of(formula, symbols);
          ASSERT_TRUE(terms) << verdict.variant << ", " << testing::described(one) << ": "
                             << verdict.formula;
          double sum = 0;
          for (const Term& term : *terms) {
            EXPECT_TRUE(term.bytes != 0 && !term.symbol->kinds.empty()) << term.symbol->name;
            sum += term.bytes;
          }
          EXPECT_EQ(sum, formula.evaluate()) << verdict.formula;
          EXPECT_TRUE(*verdict.low <= sum && sum <= *verdict.high) << verdict.formula;
          EXPECT_TRUE(every_value_counts(formula)) << verdict.formula;
          ++summed;
        }
      }
  std::printf("%s: %d savings are sums\n", GetParam().c_str(), summed);
  EXPECT_GT(summed, 0);
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const auto& scenario : scenarios()) all.push_back(scenario.name);
  return all;
}
INSTANTIATE_TEST_SUITE_P(Scenario, Savings, ::testing::ValuesIn(names()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace tidemark
