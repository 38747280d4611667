// A report larger than any night's: what renders it must stay small and quick.
#include <fmt/format.h>

#include <random>

#include "reports/testing/sample.h"

namespace tidemark {

std::vector<Sample> noise(std::size_t n, unsigned seed) {
  std::mt19937_64 random(seed);
  std::vector<Sample> out;
  for (std::size_t i = 0; i < n; ++i) {
    const auto draw = [&] { return static_cast<Bytes>(random() % (Bytes{1} << 36)); };
    out.push_back(
        {static_cast<Ns>(i) * 977 + static_cast<Ns>(random() % 900), draw(), draw(), draw()});
  }
  return out;
}

Report huge_report() {
  Report report = small_report();
  const TrialRecord seed = sample_report(1).trials.back();
  report.trials.assign(24, seed);
  unsigned draw = 0;
  for (TrialRecord& trial : report.trials) {
    trial.steps = static_cast<int>(++draw);
    for (VariantRecord& variant : trial.variants) {
      variant.ranks.resize(8, variant.ranks.front());
      for (RankRecord& rank : variant.ranks) rank.timeline = noise(700, ++draw);
    }
    const Verdict one = trial.verdicts.front();
    for (int i = 0; i < 4000; ++i) {
      trial.verdicts.push_back(one);
      trial.verdicts.back().name += fmt::format("/{}", i);
      trial.verdicts.back().measured = i * 1.37e7 + draw;
    }
  }
  return report;
}

}  // namespace tidemark
