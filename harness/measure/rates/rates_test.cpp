// Use of measurements: which of them count, and which figures of a profile follow.
#include "harness/measure/rates/rates.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nccl.h>

#include <cmath>

#include "harness/measure/rates/calibrated.h"

// NCCL as it fails where the GPUs of a machine cannot reach each other.
extern "C" ncclResult_t ncclCommInitAll(ncclComm_t*, int, const int*) { return ncclSystemError; }

namespace tidemark::rates {
namespace {

using ::testing::HasSubstr;

std::optional<Spread> repeated(std::vector<double> values,
                               const Deadline& deadline = Deadline(60)) {
  std::size_t next = 0;
  return repeat(deadline, [&] { return values[next++ % values.size()]; });
}

TEST(Spread, IsOfAllButTheFirst) {
  const auto spread = repeated({1000, 1, 2, 3, 4, 5, 6, 7, 8, 9}).value();
  EXPECT_EQ(spread.median, 5);
  EXPECT_EQ(spread.low, 3);
  EXPECT_EQ(spread.high, 7);
  EXPECT_EQ(spread.samples, kRepetitions);
}

TEST(Spread, NoiseIsNoMeasurement) {
  EXPECT_EQ(repeated({1, -1, NAN, INFINITY, 0, 2, 3, 4, -5, -6}).value().samples, 3);
  EXPECT_FALSE(repeated({1, -1, NAN, INFINITY, 0, 2, 3, -4, -5, -6}));
  EXPECT_EQ(why_none(Deadline(60)), "the measurements are lost in their noise");
}

TEST(Spread, TimeIsBounded) {
  int calls = 0;
  EXPECT_FALSE(repeat(Deadline(0), [&] { return ++calls; }));
  EXPECT_EQ(calls, 0);
  EXPECT_EQ(why_none(Deadline(0)), "no time was left");
  const Deadline soon(0.02);
  const auto few = repeat(soon, [&] {
    while (!soon.over()) ++calls;
    return 1;
  });
  EXPECT_EQ(few.value().samples, kLeast);
}

const Shipped kShipped{
    "g", R"({"name": "g", "device": "GPU", "memory": {"gbps": {"value": 3, "source": "sheet"}},
  "host": {"launch_ns": {"value": 4000, "source": "guess \"x\""}, "poll_ns": {"value": 5, "source": "b"}}})"};
const Rate kLaunch{"host", "launch_ns", Spread{3210.6, 3200.2, 3299.6, 9}, "ops"};
const Rate kPoll{"host", "poll_ns", std::nullopt, "no time was left"};
const Rate kMemory{"memory", "gbps", Spread{2876.54321, 2870, 2880.25, 7}, "sums"};

constexpr const char* kExpected = R"text({
  "name": "g-measured",
  "device": "GPU",
  "memory": {
    "gbps": {"value": 2876.5, "source": "measured: median of 7, quartiles 2870 to 2880.2: sums (tidemark gpu rates, M, D)"}
  },
  "host": {
    "launch_ns": {"value": 3211, "source": "measured: median of 9, quartiles 3200 to 3300: ops (tidemark gpu rates, M, D)"},
    "poll_ns": {"value": 5, "source": "b"}
  }
}
)text";

// The test's process has two devices.
TEST(Links, WhatNcclCannotDoStaysAsItIs) {
  const auto rates = link_rates(Deadline(60));
  ASSERT_EQ(rates.size(), 2u);
  for (const Rate& rate : rates) {
    EXPECT_EQ(rate.group, "links");
    EXPECT_FALSE(rate.measured);
    EXPECT_THAT(rate.how, HasSubstr("ncclCommInitAll: "));
  }
  EXPECT_EQ(link_rates(Deadline(0))[0].how, "no time was left");
}

TEST(Calibrated, SaysWhereEachFigureIsFrom) {
  const std::string text = calibrated(kShipped, {kLaunch, kPoll, kMemory}, {"measured", "M", "D"});
  EXPECT_EQ(text, kExpected);
  EXPECT_THAT(table(kShipped, {kLaunch, kPoll, kMemory}), HasSubstr("stays  no time was left\n"));
}

}  // namespace
}  // namespace tidemark::rates
