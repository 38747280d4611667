// The search against trying every value.
#include "harness/fit/search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace tidemark {
namespace {

using Program = std::function<Seen(std::int64_t)>;

struct Found {
  std::int64_t largest = -1;
  std::size_t runs = 0;
  bool grew = true;
};

Found search(const Program& program, std::int64_t count, double capacity) {
  Known known;
  for (auto places = next_places(known, count, capacity); !places.empty();
       places = next_places(known, count, capacity)) {
    for (const std::int64_t place : places) {
      EXPECT_FALSE(known.contains(place)) << "tried twice";
      EXPECT_TRUE(place >= 0 && place < count);
      known[place] = program(place);
    }
  }
  return {largest(known), known.size(), grows(known)};
}

std::int64_t by_force(const Program& program, std::int64_t count) {
  std::int64_t found = -1;
  for (std::int64_t place = 0; place < count; ++place)
    if (program(place).fits == Fits::yes) found = place;
  return found;
}

Program linear(double base, double slope, double capacity, std::int64_t divisor = 1) {
  return [=](std::int64_t place) -> Seen {
    if ((place + 1) % divisor != 0) return {Fits::refused, 0};
    const double peak = base + slope * static_cast<double>(place + 1);
    return {peak <= capacity ? Fits::yes : Fits::no, peak};
  };
}

TEST(Search, FindsWhatTryingEveryValueFinds) {
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t count = draw(1, 200);
    const double capacity = draw(1, 4000);
    std::vector<double> peaks(static_cast<std::size_t>(count));
    double peak = draw(0, 100);
    for (double& each : peaks) each = peak += draw(0, round % 3 == 0 ? 400 : 30);
    const int divisor = round % 5 == 0 ? draw(1, 9) : 1;
    const Program program = [&](std::int64_t place) -> Seen {
      if ((place + 1) % divisor != 0) return {Fits::refused, 0};
      const double at = peaks[static_cast<std::size_t>(place)];
      return {at <= capacity ? Fits::yes : Fits::no, at};
    };
    ASSERT_EQ(search(program, count, capacity).largest, by_force(program, count)) << round;
  }
}

TEST(Search, ALineTakesFourRuns) {
  const Found found = search(linear(10, 3, 100), 256, 100);
  EXPECT_EQ(found.largest, 29);  // 10 + 3 * 30 = 100
  EXPECT_LE(found.runs, 4U);
}

TEST(Search, NeverMoreRunsThanHalvingNeedsAndTheSecants) {
  const Program program = [](std::int64_t place) -> Seen {  // the secant is of no use
    const double peak = place < 700 ? 1 + 1e-6 * static_cast<double>(place) : 1e9;
    return {peak <= 2 ? Fits::yes : Fits::no, peak};
  };
  const Found found = search(program, 1024, 2);
  EXPECT_EQ(found.largest, 699);
  EXPECT_LE(found.runs, 30U);
}

TEST(Search, WidensWherePeaksFall) {
  const Program valley = [](std::int64_t place) -> Seen {  // the ends do not fit, the middle does
    const double peak = 10 + 5 * std::abs(static_cast<double>(place) - 16.0);
    return {peak <= 40 ? Fits::yes : Fits::no, peak};
  };
  const Found found = search(valley, 32, 40);
  EXPECT_EQ(found.largest, by_force(valley, 32));
  EXPECT_EQ(found.largest, 22);
  EXPECT_FALSE(found.grew);
  const Found wide = search(
      [](std::int64_t place) -> Seen {
        return {Fits::no, 1e6 - static_cast<double>(place)};
      },
      100'000, 5);
  EXPECT_LE(wide.runs, static_cast<std::size_t>(kWiden) + 4);
}

TEST(Search, NothingFitsAndEverythingRefused) {
  EXPECT_EQ(search(linear(10, 3, 5), 64, 5).largest, -1);
  const Found refused = search([](std::int64_t) -> Seen { return {Fits::refused, 0}; }, 16, 5);
  EXPECT_EQ(refused.largest, -1);
  EXPECT_EQ(refused.runs, 16U);
}

}  // namespace
}  // namespace tidemark
