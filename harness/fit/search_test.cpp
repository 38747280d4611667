// The search against trying every value.
#include "harness/fit/search.h"

#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <random>

namespace tidemark {
namespace {

/// A value of a program: bytes that it allocates and reserves with room to spare, and whether a GPU
/// with less than is reserved holds it.
struct Value {
  double allocated = 0, reserved = 0;
  bool fits_at_edge = false, refused = false;
};
using Program = std::function<Value(std::int64_t)>;

bool fits(const Value& value, double capacity) {
  if (value.refused || value.allocated > capacity) return false;
  return value.reserved <= capacity || value.fits_at_edge;
}

/// State of a value after one more run.
Seen after(Seen seen, const Value& value, bool at_size, double capacity) {
  if (value.refused) return {Fits::refused};
  if (!at_size) seen.peak = value.allocated;
  const bool decided = at_size || value.allocated > capacity || value.reserved <= capacity;
  seen.fits = !decided ? Fits::unknown : fits(value, capacity) ? Fits::yes : Fits::no;
  seen.at_edge = !decided;
  return seen;
}

struct Found {
  std::int64_t largest = -1;
  std::size_t runs = 0;
  bool grew = true;
};

Found search(const Program& program, std::int64_t count, double capacity, std::int64_t guess = -1) {
  Known known;
  std::vector<Try> made;
  for (auto tries = next_tries(known, count, capacity, guess); !tries.empty();
       tries = next_tries(known, count, capacity, guess)) {
    for (const Try& one : tries) {
      EXPECT_EQ(std::ranges::find(made, one), made.end()) << "tried twice";
      EXPECT_TRUE(one.place >= 0 && one.place < count);
      made.push_back(one);
      const Seen before = known.contains(one.place) ? known[one.place] : Seen{};
      known[one.place] = after(before, program(one.place), one.at_size, capacity);
    }
  }
  return {largest(known), made.size(), grows(known)};
}

std::int64_t by_force(const Program& program, std::int64_t count, double capacity) {
  std::int64_t largest_fit = -1;
  for (std::int64_t place = 0; place < count; ++place)
    if (fits(program(place), capacity)) largest_fit = place;
  return largest_fit;
}

Program linear(double base, double slope) {
  return [=](std::int64_t place) -> Value {
    const double peak = base + slope * static_cast<double>(place + 1);
    return {peak, peak};
  };
}

// holds: harness/fit/README.md, The search
/// Programs of every kind: peaks that grow in steps, fragmentation that does not grow, refusals.
TEST(Search, FindsWhatTryingEveryValueFinds) {
  std::mt19937 random(7);
  const auto draw = [&](int low, int high) {
    return std::uniform_int_distribution<int>(low, high)(random);
  };
  for (int round = 0; round < 2000; ++round) {
    const std::int64_t count = draw(1, 64);
    const double capacity = draw(1, 4000);
    std::vector<Value> values(static_cast<std::size_t>(count));
    double peak = draw(0, 100);
    const int divisor = round % 5 == 0 ? draw(1, 9) : 1;
    for (std::size_t i = 0; i < values.size(); ++i) {
      peak += draw(0, round % 3 == 0 ? 400 : 60);
      values[i] = {peak, peak * (1 + 0.01 * draw(0, round % 2 == 0 ? 30 : 0)), draw(0, 3) == 0,
                   (static_cast<int>(i) + 1) % divisor != 0};
    }
    const Program program = [&](std::int64_t at) { return values[static_cast<std::size_t>(at)]; };
    ASSERT_EQ(search(program, count, capacity).largest, by_force(program, count, capacity))
        << round;
    const std::int64_t guess = draw(0, static_cast<int>(count) - 1);
    ASSERT_EQ(search(program, count, capacity, guess).largest, by_force(program, count, capacity))
        << round << " from " << guess;
  }
}

TEST(Search, ARightGuessTakesTwoRuns) {
  for (const std::int64_t right : {0, 29, 62}) {
    const double capacity = 10 + 3 * static_cast<double>(right + 1);
    const Found outcome = search(linear(10, 3), 64, capacity, right);
    EXPECT_EQ(outcome.largest, right);
    EXPECT_EQ(outcome.runs, 2U);
  }
}

TEST(Search, ALineTakesFourRuns) {
  const Found outcome = search(linear(10, 3), 256, 100);
  EXPECT_EQ(outcome.largest, 29);  // 10 + 3 * 30 = 100
  EXPECT_LE(outcome.runs, 4U);
}

TEST(Search, ThirdsWhereALineIsOfNoUse) {
  const Program program = [](std::int64_t place) -> Value {
    const double peak = place < 700 ? 1 + 1e-6 * static_cast<double>(place) : 1e9;
    return {peak, peak};
  };
  const Found outcome = search(program, 1024, 2);
  EXPECT_EQ(outcome.largest, 699);
  EXPECT_LE(outcome.runs, 30U);
}

TEST(Search, AFitAboveAMissIsFound) {  // fragmentation of place 20 alone
  const Program program = [](std::int64_t place) -> Value {
    const double peak = 10 * static_cast<double>(place + 1);
    return {peak, peak * 1.1, place != 20 && place < 23};
  };
  const Found outcome = search(program, 256, 255);
  EXPECT_EQ(outcome.largest, 22);
  EXPECT_LE(outcome.runs, 8U);
}

TEST(Search, ManyValuesAtTheEdgeAreHalved) {
  const Found halved = search(
      [&](std::int64_t place) -> Value {
        const double peak = 1000 + static_cast<double>(place);
        return {peak, 1e6, place < 321};
      },
      4096, 3000);
  EXPECT_EQ(halved.largest, 320);
  EXPECT_LE(halved.runs, 100U);
}

TEST(Search, WidensWherePeaksFall) {
  const Program valley = [](std::int64_t place) -> Value {  // the ends do not fit, the middle does
    const double peak = 10 + 5 * std::abs(static_cast<double>(place) - 16.0);
    return {peak, peak};
  };
  const Found outcome = search(valley, 32, 40);
  EXPECT_EQ(outcome.largest, by_force(valley, 32, 40));
  EXPECT_EQ(outcome.largest, 22);
  EXPECT_FALSE(outcome.grew);
  const Found wide = search(
      [](std::int64_t place) -> Value {
        const double peak = 1e6 - static_cast<double>(place);
        return {peak, peak};
      },
      100'000, 5);
  EXPECT_LE(wide.runs, static_cast<std::size_t>(kWiden) + 4);
}

TEST(Search, NothingFitsAndEverythingRefused) {
  EXPECT_EQ(search(linear(10, 3), 64, 5).largest, -1);
  const Found refused = search([](std::int64_t) -> Value { return {0, 0, false, true}; }, 16, 5);
  EXPECT_EQ(refused.largest, -1);
  EXPECT_EQ(refused.runs, 16U);
}

}  // namespace
}  // namespace tidemark
