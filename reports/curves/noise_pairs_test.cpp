// Pairs of curves whose truth is known by construction: false alarms, misses, and how far the first
// step that is found is from the right one. README.md has the figures that this prints.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "harness/testing/part.h"
#include "reports/curves/noise.h"
#include "reports/curves/parity.h"
#include "reports/curves/testing/drawn_curves.h"
#include "reports/curves/testing/trained.h"

namespace tidemark {
namespace {

using namespace testing;

/// A pair, and the step from which B truly differs; none: it does not.
struct Pair {
  Curve a, b;
  std::vector<Curve> runs;
  std::optional<std::int64_t> truth;
};

Pair seeds(Drawn& d) {
  const auto n = static_cast<std::size_t>(d.whole(20, 2000));
  const auto level = d.decay(n);
  const double size = d.uniform(0.003, 0.05);
  const int how = d.whole(0, 2);
  return {
      logged(sum(level, size, d.noise(n)), how), logged(sum(level, size, d.noise(n)), how), {}, {}};
}

Pair seeds_beside_runs(Drawn& d) {
  const auto level = d.decay(static_cast<std::size_t>(d.whole(50, 2000)));
  const double size = d.uniform(0.003, 0.05), slow = size * d.uniform(0, 1);
  const auto run = [&] { return logged(slow_run(d, level, size, slow), 0); };
  Pair out{run(), run(), {}, {}};
  for (int i = d.whole(1, 6); i > 0; --i) out.runs.push_back(run());
  return out;
}

Pair reordered(Drawn& d) {
  const auto seed = static_cast<std::uint64_t>(d.whole(0, 1 << 30));
  const int steps = d.whole(60, 400);
  return {trained({seed, steps, Order::forward}), trained({seed, steps, Order::pairwise}), {}, {}};
}

/// One training, and beside it the same with other noise a hundredth to a tenth of its own, as two
/// machines make it. `change` adds to B in units of that noise.
Pair changed(
    Drawn& d, int how,
    const std::function<std::optional<std::int64_t>(std::vector<double>&, double)>& change) {
  const auto n = static_cast<std::size_t>(d.whole(100, 2000));
  const double own = d.uniform(0.01, 0.05), size = own * d.uniform(0.01, 0.5);
  const auto a = sum(d.decay(n), own, d.noise(n));
  auto b = sum(a, size, d.noise(n));
  const auto truth = change(b, size);
  return {logged(a, how), logged(b, how), {}, truth};
}

Pair bias(Drawn& d) {
  return changed(d, d.whole(0, 1), [&](std::vector<double>& b, double size) {
    const auto n = static_cast<double>(b.size());
    const auto from = static_cast<std::size_t>(d.uniform(0, 0.7) * n);
    // 12 to 60 standard errors of independent steps; their correlation makes it 4 to 60.
    const double by =
        (d.coin() ? 1 : -1) * size * d.uniform(12, 60) / std::sqrt(n - static_cast<double>(from));
    for (std::size_t t = from; t < b.size(); ++t) b[t] += by;
    return static_cast<std::int64_t>(from) + 1;
  });
}

Pair bias_beside_runs(Drawn& d) {
  const auto level = d.decay(static_cast<std::size_t>(d.whole(100, 2000)));
  const double size = d.uniform(0.003, 0.05), slow = size * d.uniform(0, 0.3);
  const auto run = [&] { return slow_run(d, level, size, slow); };
  Pair out{logged(run(), 0), {}, {}, {}};
  for (int i = d.whole(3, 6); i > 0; --i) out.runs.push_back(logged(run(), 0));
  auto b = run();
  const auto from = static_cast<std::size_t>(d.uniform(0, 0.7) * static_cast<double>(b.size()));
  const double by = (d.coin() ? 1 : -1) * size * d.uniform(3, 10);
  for (std::size_t t = from; t < b.size(); ++t) b[t] += by;
  out.b = logged(b, 0);
  out.truth = static_cast<std::int64_t>(from) + 1;
  return out;
}

Pair drift(Drawn& d) {
  return changed(d, d.whole(0, 1), [&](std::vector<double>& b, double size) {
    const auto n = static_cast<double>(b.size());
    const auto from = static_cast<std::size_t>(d.uniform(0, 0.5) * n);
    const double length = n - static_cast<double>(from);
    const double at_end = (d.coin() ? 1 : -1) * size * d.uniform(30, 120) / std::sqrt(length);
    for (std::size_t t = from; t < b.size(); ++t)
      b[t] += at_end * static_cast<double>(t - from + 1) / length;
    return static_cast<std::int64_t>(from) + 1;
  });
}

Pair spike(Drawn& d) {
  return changed(d, d.whole(0, 1), [&](std::vector<double>& b, double size) {
    const auto from = static_cast<std::size_t>(d.uniform(0, 0.98) * static_cast<double>(b.size()));
    const std::size_t steps = static_cast<std::size_t>(d.whole(1, 3));
    const double by = (d.coin() ? 1 : -1) * size * d.uniform(15, 100);
    for (std::size_t t = from; t < std::min(from + steps, b.size()); ++t) b[t] += by;
    return static_cast<std::int64_t>(from) + 1;
  });
}

struct Kind {
  const char* name;
  int pairs;
  Pair (*draw)(Drawn&);
  double may_miss;  // of a hundred
};
constexpr Kind kKinds[] = {{"other seeds", 30, seeds, 0},
                           {"other seeds, beside runs of A", 30, seeds_beside_runs, 0},
                           {"reductions reordered in bf16", 30, reordered, 0},
                           {"bias", 30, bias, 20},
                           {"bias, beside runs of A", 20, bias_beside_runs, 30},
                           {"drift", 30, drift, 20},
                           {"a spike of 1 to 3 steps", 30, spike, 10}};

TEST(Noise, TwoHundredDrawnPairs) {
  const int times = from_environment("TIDEMARK_TEST_CASES", 1);
  int equal = 0, alarms = 0;
  for (const Kind& kind : kKinds) {
    int found = 0, early = 0, wrong = 0, pairs = 0;
    std::vector<double> apart;  // steps of the run, in hundredths
    for (int i = 0; i < kind.pairs * times; ++i) {
      if (!testing::drawn(i)) continue;
      ++pairs;
      Drawn drawn(seed() * 1000003 + static_cast<std::uint64_t>(&kind - kKinds) * 10007 +
                  static_cast<std::uint64_t>(i));
      const Pair pair = kind.draw(drawn);
      std::vector<const Curve*> runs;
      for (const Curve& run : pair.runs) runs.push_back(&run);
      const CurveParity c = parity(pair.a, pair.b, {}, false, runs);
      ASSERT_TRUE(c.noise);
      if (!pair.truth) {
        ++equal;
        if (!c.noise->differs()) continue;
        ++alarms, ++wrong;
        fmt::print("  false alarm: {}, pair {}: {}\n", kind.name, i, verdict_text(c, {}));
      } else if (c.noise->differs()) {
        ++found;
        const auto by = *c.noise->first() - *pair.truth;
        early += by < 0;
        apart.push_back(std::abs(static_cast<double>(by)));
      } else if (times == 1) {
        fmt::print("  miss: {}, pair {}: {}\n", kind.name, i, verdict_text(c, {}));
      }
    }
    if (wrong > 0) fmt::print("{}: {} of {} are false alarms\n", kind.name, wrong, pairs);
    if (apart.empty()) continue;
    std::ranges::sort(apart);
    const auto at = [&](double part) {
      return apart[static_cast<std::size_t>(part * static_cast<double>(apart.size() - 1))];
    };
    fmt::print(
        "{}: {} of {} found; first step off by {} (median), {} (nine of ten), {} (most), {} "
        "early\n",
        kind.name, found, pairs, at(0.5), at(0.9), apart.back(), early);
    EXPECT_GE(found, pairs * (1 - kind.may_miss / 100)) << kind.name;
  }
  fmt::print("{} of {} equal pairs are false alarms\n", alarms, equal);
  EXPECT_LE(alarms, most_alarms(equal));
}

}  // namespace
}  // namespace tidemark
