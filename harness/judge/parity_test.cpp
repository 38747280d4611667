#include "harness/judge/parity.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

namespace tidemark {
namespace {

TEST(UlpDistance, CountsRepresentableNumbers) {
  EXPECT_EQ(ulp_distance(1.0, 1.0, at::kFloat), 0);
  EXPECT_EQ(ulp_distance(1.0, std::nextafter(1.0f, 2.0f), at::kFloat), 1);
  EXPECT_EQ(ulp_distance(std::nextafter(1.0f, 2.0f), std::nextafter(1.0f, 0.0f), at::kFloat), 2);
  EXPECT_EQ(ulp_distance(0.0, -0.0, at::kFloat), 0);
  const double least = std::numeric_limits<float>::denorm_min();
  EXPECT_EQ(ulp_distance(least, -least, at::kFloat), 2);
  EXPECT_EQ(ulp_distance(1.0, std::nextafter(1.0, 2.0), at::kDouble), 1);
  EXPECT_EQ(ulp_distance(1.0, 1.0078125, at::kBFloat16), 1);
  EXPECT_EQ(ulp_distance(1.0, 1.0009765625, at::kHalf), 1);
  EXPECT_TRUE(std::isinf(ulp_distance(1.0, std::nan(""), at::kFloat)));
}

TEST(SameBits, AreThoseOfTheSameType) {
  const at::Tensor one = at::ones({4}, at::kFloat);
  EXPECT_TRUE(same_bits(one, one.clone()));
  EXPECT_FALSE(same_bits(one, one.view(at::kInt)));
  EXPECT_FALSE(same_bits(at::zeros({4}, at::kFloat), -at::zeros({4}, at::kFloat)));
}

TEST(Losses, NameTheFirstStepThatDiffers) {
  std::vector<LossPoint> a{{0, 1.0}, {1, 2.0}, {2, 3.0}};
  auto b = a;
  EXPECT_TRUE(compare_losses(a, b).equal);
  b[1].value = std::nextafter(2.0f, 3.0f);
  auto difference = compare_losses(a, b);
  EXPECT_FALSE(difference.equal);
  EXPECT_EQ(difference.where, "loss at step 1");
  EXPECT_EQ(difference.ulps, 1);
}

TEST(Losses, AMissingLossNeverEqualsOne) {
  EXPECT_FALSE(compare_losses({}, {}).equal);
  EXPECT_FALSE(compare_losses({{0, 1.0}}, {}).equal);
  EXPECT_FALSE(compare_losses({{0, std::nullopt}}, {{0, std::nullopt}}).equal);
}

TEST(Shards, AreComparedWithTheirPlaceInTheWhole) {
  at::Tensor whole = at::arange(10, at::kDouble);
  std::vector<Shard> reference{{"w", 0, whole}};
  auto part = [&](std::int64_t from, std::int64_t to) {
    return whole.slice(0, from, to).to(at::kFloat);
  };
  EXPECT_EQ(compare_shards("gradient", {{"w", 3, part(3, 7)}}, reference).relative, 0);
  auto wrong = part(3, 7).clone();
  wrong[2] += 0.5;
  auto difference = compare_shards("gradient", {{"w", 3, wrong}}, reference);
  EXPECT_EQ(difference.where, "gradient of w [element 5]");
  EXPECT_EQ(difference.worst, "w");
  EXPECT_GT(difference.relative, 0.01);
}

TEST(Shards, SmallElementsHaveTheirShareOfTheWholeTensorsNorm) {
  const std::vector<Shard> reference{{"w", 0, at::tensor({1e-6, 1e-6, 3.0, 4.0}, at::kDouble)}};
  // Half of the elements: sqrt(1/2) of the norm 5.
  const at::Tensor off = at::tensor({1e-6 + 1e-3, 1e-6}, at::kDouble);
  EXPECT_NEAR(compare_shards("gradient", {{"w", 0, off}}, reference).relative,
              1e-3 / (5 * std::sqrt(0.5)), 1e-9);
  // Large ones count by their own: 5 is more.
  const at::Tensor large = at::tensor({3.0, 4.001}, at::kDouble);
  EXPECT_NEAR(compare_shards("gradient", {{"w", 2, large}}, reference).relative, 1e-3 / 5, 1e-9);
  // A reference that is a shard itself counts with its own elements alone.
  EXPECT_GT(
      compare_shards("gradient", {{"w", 0, off}}, {{"w", 0, reference[0].values.slice(0, 0, 2)}})
          .relative,
      100);
}

TEST(Shards, AreJudgedInPartsOfWhatIsAllowed) {
  const std::vector<Shard> reference{{"v", 0, at::tensor({3.0, 4.0}, at::kDouble)},
                                     {"w", 0, at::tensor({1.0, 1.0}, at::kDouble)},
                                     {"frozen", 0, at::tensor({2.0}, at::kDouble)}};
  auto mine = reference;
  mine[0].values = at::tensor({3.0, 4.1}, at::kDouble);       // 0.02
  mine[1].values = at::tensor({1.0, 1.001414}, at::kDouble);  // 0.001
  const auto worst = [&](const Allowed& allowed) {
    return compare_shards("parameter", mine, reference, allowed);
  };
  EXPECT_EQ(worst({}).worst, "v");
  EXPECT_EQ(worst({{0.1, 1e-4, 0}}).worst, "w");
  EXPECT_EQ(worst({{0.1, 1e-4, 0}}).allowed, 1e-4);
  EXPECT_EQ(worst({{0.1, 1e-4, 0}}).compared, 5);
  const std::vector<Shard> scales{{"v", 0, at::tensor({1.0, 100.0}, at::kDouble)},
                                  {"w", 0, at::tensor({1.0, 1.0}, at::kDouble)},
                                  {"frozen", 0, at::tensor({1.0}, at::kDouble)}};
  EXPECT_NEAR(compare_shards("parameter", {mine[0]}, reference, {{1, 1, 1}, &scales}).relative,
              0.001 / 3, 1e-6);
  mine[2].values = at::tensor({2.0000001}, at::kDouble);
  EXPECT_EQ(worst({{0.1, 1e-4, 0}}).worst, "frozen") << "nothing at all is allowed there";
}

TEST(Losses, AreJudgedStepByStep) {
  const std::vector<LossPoint> exact{{0, 1.0}, {1, 1.0}, {2, 1.0}};
  auto mine = exact;
  mine[0].value = 1.1;
  mine[2].value = 1.01;
  const Difference found = compare_losses(mine, exact, {{0.2, 0.2, 0.001}});
  EXPECT_EQ(found.worst, "step 2");
  EXPECT_EQ(found.allowed, 0.001);
  EXPECT_NEAR(found.relative, 0.01, 1e-12);
  EXPECT_EQ(found.compared, 3);
}

TEST(Shards, ZerosAreEqualWhateverTheirSigns) {
  const at::Tensor plus = at::tensor({0.0f, 1.0f}), minus = at::tensor({-0.0f, 1.0f});
  EXPECT_TRUE(compare_shards("gradient", {{"w", 0, minus}}, {{"w", 0, plus}}).equal);
  EXPECT_FALSE(compare_shards("gradient", {{"w", 0, -minus}}, {{"w", 0, plus}}).equal);
  EXPECT_FALSE(
      compare_shards("gradient", {{"w", 0, minus.to(at::kDouble)}}, {{"w", 0, plus}}).equal)
      << "another type";
}

TEST(Shards, MissingOnesAreNamed) {
  const at::Tensor values = at::ones({4});
  const std::vector<Shard> both{{"v", 0, values}, {"w", 0, values}}, one{{"v", 0, values}};
  EXPECT_EQ(missing_from(both, one), nullptr);
  ASSERT_NE(missing_from(one, both), nullptr);
  EXPECT_EQ(missing_from(one, both)->name, "w");
  EXPECT_EQ(elements_of(both), 8);
}

TEST(Shards, AMissingOrNanElementIsADifference) {
  at::Tensor values = at::ones({4});
  EXPECT_FALSE(compare_shards("gradient", {}, {{"w", 0, values}}).equal);
  EXPECT_FALSE(compare_shards("gradient", {{"v", 0, values}}, {{"w", 0, values}}).equal);
  EXPECT_FALSE(compare_shards("gradient", {{"w", 2, values}}, {{"w", 0, values}}).equal);
  auto bad = values.clone();
  bad[0] = std::numeric_limits<float>::quiet_NaN();
  EXPECT_TRUE(std::isinf(compare_shards("gradient", {{"w", 0, bad}}, {{"w", 0, values}}).relative));
}

}  // namespace
}  // namespace tidemark
