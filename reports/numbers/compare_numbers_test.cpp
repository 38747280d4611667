// Two machines' numbers: the same is the same, sums in another order are within the model, and
// whatever is wrong is found where it is.
#include "reports/numbers/compare_numbers.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <limits>
#include <numeric>
#include <random>

#include "reports/numbers/difference.h"
#include "reports/numbers/sample.h"

namespace tidemark {
namespace {

using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr float kNone = std::numeric_limits<float>::quiet_NaN();

NumbersLog of_a_gpu(int rank = 0) {
  NumbersLog log = numbers_sample(rank);
  log.device = "cuda a GPU";
  log.arithmetic = "by the GPU's kernels";
  log.exact = false;
  return log;
}

NumbersComparison compared(const NumbersLog& a, const NumbersLog& b) {
  return compare_numbers({a}, {b});
}

void set(ShardNumbers& shard, std::int64_t element, float value) {
  std::memcpy(shard.bytes.data() + 4 * element, &value, 4);
}

TEST(CompareNumbers, TheSameBitsAreTheSameByAnyArithmetic) {
  for (const NumbersLog& other : {numbers_sample(), of_a_gpu()}) {
    const auto result = compared(numbers_sample(), other);
    EXPECT_EQ(result.equal, 1);
    EXPECT_EQ(result.exit_code(), 0);
    EXPECT_THAT(result.text("x", "y"),
                HasSubstr("toy/smoke/r2/math/lagging/keep: the same bits on 1 rank\n"));
  }
}

TEST(CompareNumbers, ByTheSameArithmeticEveryBitCounts) {
  const auto changed = [](auto act) {
    NumbersLog log = numbers_sample();
    act(log);
    return compared(numbers_sample(), log);
  };
  const auto ulp =
      changed([](NumbersLog& l) { set(l.gradients[1], 5, std::nextafter(wave(24, 2)[5], 2.F)); });
  EXPECT_EQ(ulp.exit_code(), 1);
  EXPECT_THAT(ulp.variants[0].faults,
              Contains(HasSubstr("rank 0, gradients of fc2: 1 of its numbers differ; furthest at "
                                 "element 53: ")));
  EXPECT_THAT(ulp.text("x", "y"), HasSubstr(", 1 ULP"));
  EXPECT_EQ(changed([](NumbersLog& l) { l.loss[2] = std::nextafter(l.loss[2], 1); }).exit_code(),
            1);
  NumbersLog zero = numbers_sample(), other = zero;
  set(zero.gradients[0], 0, 0.F);
  set(other.gradients[0], 0, -0.F);
  EXPECT_EQ(compared(zero, other).exit_code(), 1);
  set(zero.gradients[0], 0, kNone);
  EXPECT_EQ(compared(zero, zero).exit_code(), 0);  // a control may compute such
  // Two kinds of CPU are two arithmetics.
  NumbersLog elsewhere = numbers_sample();
  elsewhere.arithmetic = "by other CPU kernels";
  set(elsewhere.gradients[1], 5, std::nextafter(wave(24, 2)[5], 2.F));
  EXPECT_EQ(compared(numbers_sample(), elsewhere).within, 1);
}

TEST(CompareNumbers, TheBoundIsThatOfTheTriangle) {
  // A and B at the two ends of what the reference 1 allows: just within, and beyond by a hundredth.
  for (const double t : {1e-6, 1e-3, 0.2})
    for (const double more : {1.0, 1.01}) {
      NumbersLog a = numbers_sample(), b = of_a_gpu();
      a.tolerance = b.tolerance = t;
      a.loss_condition = b.loss_condition = 1;
      a.loss = {1 + t * (1 - 1e-9)};
      b.loss = {1 - t * more * (1 - 1e-9)};
      EXPECT_EQ(compared(a, b).exit_code(), more == 1.0 ? 0 : 1) << t << " " << more;
    }
  EXPECT_DOUBLE_EQ(bound_of(0.1, 0.2), 0.3 / 0.8);
  EXPECT_EQ(bound_of(1, 0), std::numeric_limits<double>::infinity());
}

/// Rows of a product, each sum of `terms` added up in another order, or of operands as TF32 reads
/// them: 10 bits of the mantissa.
enum class Sum { forward, backward, pairwise, tf32 };
float as_tf32(float x) {
  return std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) + 0x1000U) & ~0x1fffU);
}
std::vector<float> product(std::size_t terms, Sum sum) {
  std::vector<float> out;
  std::mt19937 engine(20261122);
  const auto draw = [&] {
    return static_cast<float>(static_cast<double>(engine()) * 0x1p-32 - 0.5);
  };
  std::vector<float> x(terms * 40), w(terms * 40);
  std::generate(x.begin(), x.end(), draw);
  std::generate(w.begin(), w.end(), draw);
  for (std::size_t row = 0; row < 40; ++row)
    for (std::size_t column = 0; column < 40; ++column) {
      std::vector<float> all;
      for (std::size_t i = 0; i < terms; ++i) {
        float a = x[row * terms + i], b = w[column * terms + i];
        if (sum == Sum::tf32) a = as_tf32(a), b = as_tf32(b);
        all.push_back(a * b);
      }
      if (sum == Sum::backward) std::reverse(all.begin(), all.end());
      for (std::size_t half = 1; sum == Sum::pairwise && half < all.size(); half *= 2)
        for (std::size_t i = 0; i + half < all.size(); i += 2 * half) all[i] += all[i + half];
      out.push_back(sum == Sum::pairwise ? all[0] : std::accumulate(all.begin(), all.end(), 0.F));
    }
  return out;
}

// On one rank a gradient is small by chance: it may be off by its share of the whole.
TEST(CompareNumbers, AShardOfSmallElementsHasItsShareOfTheWhole) {
  const auto logs = [](float small, bool gpu) {
    std::vector<NumbersLog> all{numbers_sample(0), numbers_sample(1)};
    for (NumbersLog& log : all) {
      if (gpu) log.arithmetic = "by a GPU's kernels";
      if (gpu) log.exact = false;
      log.gradients = {shard_of(
          "norm", log.rank == 0 ? std::vector<float>{small, small} : std::vector<float>{3, 4},
          2 * log.rank)};
    }
    return all;
  };
  const auto virtual_ones = logs(1e-7F, false);
  // The bound of 1e-5 and 1e-5 is 2e-5, sqrt(1/2) of the norm is 3.5: 7e-5.
  EXPECT_EQ(compare_numbers(virtual_ones, logs(3e-5F, true)).exit_code(), 0);
  const auto far = compare_numbers(virtual_ones, logs(1e-4F, true));
  EXPECT_EQ(far.exit_code(), 1);
  EXPECT_THAT(far.variants.at(0).faults.at(0), HasSubstr("rank 0, gradients of norm: "));
}

TEST(CompareNumbers, SumsInAnotherOrderAreWithinTheModelAndTf32IsNot) {
  for (const std::size_t terms : {48U, 160U}) {
    // Tolerance of the cases for a path of two products, the narrowest there is; and the widest in
    // the smoke suite.
    const double least = std::ldexp(2 * std::sqrt(static_cast<double>(terms)), -24);
    for (const double tolerance : {least, 5e-5}) {
      NumbersLog a = numbers_sample(), b = of_a_gpu();
      a.tolerance = b.tolerance = tolerance;
      a.gradients = {shard_of("w", product(terms, Sum::forward))};
      for (const Sum sum : {Sum::backward, Sum::pairwise}) {
        b.gradients = {shard_of("w", product(terms, sum))};
        const auto result = compared(a, b);
        EXPECT_EQ(result.within, 1) << result.text("x", "y");
      }
      b.gradients = {shard_of("w", product(terms, Sum::tf32))};
      EXPECT_EQ(compared(a, b).exit_code(), 1);
      EXPECT_THAT(compared(a, b).text("x", "y"),
                  HasSubstr("of the smaller norm apart, not at most"));
    }
  }
}

struct Mutation {
  const char* what;
  std::function<void(NumbersLog&)> act;
  const char* message;
};

TEST(CompareNumbers, EachFaultIsFoundWhereItIs) {
  const std::vector<Mutation> all{
      {"element", [](NumbersLog& l) { set(l.gradients[1], 3, wave(24, 2)[3] + 1e-3F); },
       "rank 1, gradients of fc2: "},
      {"that element", [](NumbersLog& l) { set(l.gradients[1], 3, -7.F); },
       "furthest at element 51: "},
      {"both values", [](NumbersLog& l) { set(l.parameters[0], 0, 12.5F); }, "| 12.5, "},
      {"swapped", [](NumbersLog& l) { std::swap(l.gradients[0].bytes, l.gradients[1].bytes); },
       "rank 1, gradients of fc1: "},
      {"missing", [](NumbersLog& l) { l.gradients.pop_back(); },
       "gradients of fc2: there | missing"},
      {"more", [](NumbersLog& l) { l.parameters.push_back(shard_of("bias", {1})); },
       "parameters of bias: missing | there"},
      {"elsewhere", [](NumbersLog& l) { l.gradients[0].offset = 0; },
       "gradients of fc1: missing | there"},
      {"NaN", [](NumbersLog& l) { set(l.gradients[1], 3, kNone); }, "element 51: "},
      {"infinity",
       [](NumbersLog& l) { set(l.parameters[0], 3, std::numeric_limits<float>::infinity()); },
       "| inf, inf ULP"},
      {"type",
       [](NumbersLog& l) {
         l.parameters[1] = shard_of("norm", {1, 0.5, 2});
       },
       "parameters of norm: BF16 | F32"},
      {"shape",
       [](NumbersLog& l) {
         l.gradients[0].shape = {4, 6};
       },
       "gradients of fc1: [24] | [4, 6]"},
      {"nothing",
       [](NumbersLog& l) {
         std::fill(l.gradients[0].bytes.begin(), l.gradients[0].bytes.end(), '\0');
       },
       "gradients of fc1: 1.45 of the smaller norm apart"},
      {"loss", [](NumbersLog& l) { l.loss[1] *= 1.0001; }, "rank 1, loss: 0.0001 of"},
      {"which loss", [](NumbersLog& l) { l.loss[1] *= 1.0001; }, "; losses part at step 1"},
      {"loss NaN", [](NumbersLog& l) { l.loss[2] = kNone; }, "furthest at step 2: 0.125 | nan"},
      {"steps", [](NumbersLog& l) { l.loss.pop_back(); }, "loss: 3 steps | 2 steps"},
      {"seed of other numbers",
       [](NumbersLog& l) { l.gradients[1] = shard_of("fc2", wave(24, 9), 48); },
       "rank 1, gradients of fc2: "}};
  for (const Mutation& mutation : all) {
    NumbersLog changed = of_a_gpu(1);
    mutation.act(changed);
    const auto result =
        compare_numbers({numbers_sample(0), numbers_sample(1)}, {of_a_gpu(0), changed});
    EXPECT_EQ(result.exit_code(), 1) << mutation.what;
    EXPECT_EQ(result.different, 1) << mutation.what;
    EXPECT_THAT(result.text("A", "B"), HasSubstr(mutation.message)) << mutation.what;
    EXPECT_THAT(result.text("A", "B"),
                HasSubstr("toy/smoke/r2/math/lagging/keep: DIFFERS on 2 ranks"));
    EXPECT_EQ(
        compare_numbers({numbers_sample(0), changed}, {of_a_gpu(0), numbers_sample(1)}).exit_code(),
        1)
        << mutation.what << ", the other way round";
  }
}

TEST(CompareNumbers, NanOnBothSidesIsWrongToo) {
  NumbersLog a = numbers_sample(), b = of_a_gpu();
  set(a.gradients[0], 2, kNone);
  set(b.gradients[0], 2, kNone);
  EXPECT_EQ(compared(a, b).exit_code(), 1);
}

TEST(CompareNumbers, TheFirstStepOfAnyRankIsWhereLossesPart) {
  NumbersLog early = of_a_gpu(0), late = of_a_gpu(1);
  for (const int step : {1, 2}) early.loss[static_cast<std::size_t>(step)] *= 1 + 1e-7;
  late.loss[2] *= 1 + 1e-7;
  const auto summary = [](NumbersLog one, NumbersLog two) {
    one.rank = 0;
    two.rank = 1;
    NumbersLog a = numbers_sample(0), b = numbers_sample(1);
    one.gradients = a.gradients, two.gradients = b.gradients;
    one.parameters = a.parameters, two.parameters = b.parameters;
    return compare_numbers({a, b}, {one, two}).variants.at(0).summary;
  };
  EXPECT_THAT(summary(early, late), HasSubstr("losses part at step 1"));
  EXPECT_THAT(summary(late, early), HasSubstr("losses part at step 1"));
}

TEST(CompareNumbers, TwoOfOneGpuNeedNotHaveTheSameBits) {
  NumbersLog other = of_a_gpu();
  set(other.gradients[1], 5, std::nextafter(wave(24, 2)[5], 2.F));
  EXPECT_EQ(compared(of_a_gpu(), other).within, 1);
}

TEST(CompareNumbers, TheWorstIsNamedWithItsBound) {
  NumbersLog a = of_a_gpu(0), b = of_a_gpu(1);
  set(a.gradients[1], 5, wave(24, 2)[5] + 1e-6F);
  set(b.parameters[0], 7, wave(24, 3)[7] + 2e-5F);
  b.loss[2] *= 1 + 1e-7;
  const auto result = compare_numbers({numbers_sample(0), numbers_sample(1)}, {a, b});
  EXPECT_EQ(result.exit_code(), 0);
  EXPECT_THAT(result.variants.at(0).summary,
              HasSubstr("within the model on 2 ranks: worst parameters of fc1 on rank 1: "));
  EXPECT_THAT(result.variants[0].summary, HasSubstr(" of 3e-05, "));
  EXPECT_THAT(result.variants[0].summary, HasSubstr("ULP at element 31; losses part at step 2"));
  const std::string text = result.text("A", "B");
  EXPECT_THAT(text, HasSubstr("triangle inequality"));
  EXPECT_THAT(
      text,
      HasSubstr("toy/smoke/r2/math: 2e-05 (losses 4e-05, parameters 3e-05) from a = 1e-05, b = "
                "1e-05 and conditions 2 of losses, 1.5 of parameters: a bound on paper\n"));
  EXPECT_THAT(
      text,
      HasSubstr("A: virtual h100-80g: by CPU kernels\nB: cuda a GPU: by the GPU's kernels\n"));
}

TEST(CompareNumbers, ABoundThatAllowsAnythingHoldsNothing) {
  NumbersLog a = numbers_sample(), b = of_a_gpu();
  a.loss_condition = b.loss_condition = 1e5;
  b.loss[0] *= 1.5;
  EXPECT_EQ(compared(a, b).within, 1);
  EXPECT_THAT(compared(a, b).variants.at(0).summary,
              HasSubstr("; not held, by a bound of inf: loss"));
  b.loss[1] = kNone;  // this is wrong under any bound
  EXPECT_EQ(compared(a, b).exit_code(), 1);
  b.loss[1] = a.loss[1];
  a.tolerance = b.tolerance = 0.4;
  for (auto* part : {&b.gradients, &b.parameters})
    for (ShardNumbers& each : *part) each.bytes[1] ^= 1;
  const auto nothing = compared(a, b);
  EXPECT_EQ(nothing.exit_code(), 4);
  EXPECT_THAT(nothing.skipped.at(0),
              HasSubstr("keep: nothing can be held on 1 rank; losses part at "
                        "step 0; not held, by a bound of inf: gradients of "
                        "fc1 and 4 more"));
}

TEST(CompareNumbers, AControlIsHeldWhereEveryBitIs) {
  NumbersLog a = numbers_sample(), b = of_a_gpu();
  a.role = b.role = Role::control;
  set(b.gradients[1], 5, 7);
  EXPECT_EQ(compared(a, b).exit_code(), 4);
  EXPECT_THAT(compared(a, b).skipped.at(0), HasSubstr("keep: a control"));
  b.arithmetic = a.arithmetic;
  b.exact = true;
  EXPECT_EQ(compared(a, b).exit_code(), 1);
}

TEST(CompareNumbers, WhatWasNotComparedDoesNotPass) {
  NumbersLog other = of_a_gpu();
  other.params = "n=7 steps=3 seed=1";
  const auto result = compared(numbers_sample(), other);
  EXPECT_EQ(result.exit_code(), 4);
  EXPECT_EQ(result.alone.size(), 2u);
  EXPECT_EQ(compare_numbers({}, {}).exit_code(), 4);
  NumbersLog clock = numbers_sample(), device = of_a_gpu();
  clock.schedule = "calibrated";
  device.schedule = "device";
  EXPECT_EQ(compared(clock, device).exit_code(), 0);
  EXPECT_THAT(compared(clock, device).text("x", "y"), Not(HasSubstr("in one alone: ")));
  EXPECT_EQ(compared(clock, of_a_gpu()).exit_code(), 4);
}

}  // namespace
}  // namespace tidemark
