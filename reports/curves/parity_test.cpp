// Equality of two curves, and the step where they part.
#include "reports/curves/parity.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

#include "harness/record/ranges_text.h"

namespace tidemark {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Curve curve(const std::vector<double>& values, std::int64_t first = 0) {
  Curve out{"loss", {}};
  for (double v : values) out.points.push_back({first++, v});
  return out;
}

ParityRule exact() { return {ParityMode::exact, 0, 0, 0, Precision::fp64}; }
ParityRule tolerance(double rtol, double atol) {
  return {ParityMode::tolerance, rtol, atol, 0, Precision::fp64};
}
ParityRule ulp(double n, Precision precision = Precision::fp64) {
  return {ParityMode::ulp, 0, 0, n, precision};
}

bool holds(double a, double b, const ParityRule& rule) {
  return parity(curve({a}), curve({b}), rule).holds(rule);
}

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Parity, UlpsCountRepresentableNumbers) {
  EXPECT_EQ(ulps_between(1, 1, Precision::fp64), 0);
  EXPECT_EQ(ulps_between(1, std::nextafter(1.0, 2), Precision::fp64), 1);
  EXPECT_EQ(ulps_between(1, std::nextafter(1.0, 0), Precision::fp64), 1);
  EXPECT_EQ(ulps_between(-5e-324, 5e-324, Precision::fp64), 2);
  EXPECT_EQ(ulps_between(-0.0, 0.0, Precision::fp64), 0);
  EXPECT_EQ(ulps_between(1, std::nextafter(1.0, 2), Precision::fp32), 0) << "the same float32";
  EXPECT_EQ(ulps_between(1, 1 + std::numeric_limits<float>::epsilon(), Precision::fp32), 1);
  EXPECT_EQ(ulps_between(2, 1, Precision::fp64), std::pow(2.0, 52));
  EXPECT_GT(ulps_between(-1e308, 1e308, Precision::fp64), 1.8e19);
  EXPECT_EQ(ulps_between(1, kNaN, Precision::fp64), kInf);
  EXPECT_EQ(ulps_between(kNaN, kNaN, Precision::fp64), 0);
  EXPECT_EQ(ulps_between(kInf, std::numeric_limits<double>::max(), Precision::fp64), kInf);
  EXPECT_EQ(ulps_between(-kInf, -kInf, Precision::fp64), 0);
  EXPECT_EQ(ulps_between(1, 1 + 0x1p-7, Precision::bf16), 1);
  EXPECT_EQ(ulps_between(-0x1p-133, 0x1p-133, Precision::bf16), 2) << "subnormal";
  EXPECT_EQ(ulps_between(2, 1, Precision::bf16), 128);
  EXPECT_EQ(ulps_between(1, 1 + 0x1p-10, Precision::fp16), 1);
  EXPECT_EQ(ulps_between(0x1p-14, 0x1p-14 - 0x1p-24, Precision::fp16), 1);
  EXPECT_EQ(ulps_between(65504, 65472, Precision::fp16), 1);
  EXPECT_EQ(rounded(65520, Precision::fp16), kInf);
  EXPECT_EQ(rounded(65519, Precision::fp16), 65504);
  EXPECT_EQ(rounded(1 + 0x1p-8, Precision::bf16), 1) << "ties to even";
  EXPECT_EQ(rounded(1 + 3 * 0x1p-8, Precision::bf16), 1 + 0x1p-6);
}

// Every bf16 and fp16 in its order, by its bits.
TEST(Parity, NeighboursAreOneUlpApart) {
  for (const auto& [precision, bits, exponent, largest] :
       {std::tuple{Precision::bf16, 8, -126, 0x1.fep127}, {Precision::fp16, 11, -14, 65504.0}}) {
    double before = 0;
    std::int64_t count = 0;
    for (double value = 0; value < largest; before = value, ++count) {
      value += ulp_at(value, precision);
      ASSERT_EQ(rounded(value, precision), value);
      ASSERT_EQ(ulps_between(before, value, precision), 1) << value;
      ASSERT_EQ(ulps_between(-value, value, precision), 2 * static_cast<double>(count + 1));
    }
    EXPECT_EQ(count, (std::int64_t{largest > 1e6 ? 254 : 30} << (bits - 1)) + (1 << (bits - 1)) - 1)
        << exponent;
  }
}

TEST(Parity, ExactIsBits) {
  EXPECT_TRUE(holds(0.1, 0.1, exact()));
  EXPECT_FALSE(holds(0.1, std::nextafter(0.1, 1), exact()));
  EXPECT_FALSE(holds(0.0, -0.0, exact()));
  ParityRule single = exact();
  single.precision = Precision::fp32;
  EXPECT_TRUE(holds(0.1, std::nextafter(0.1, 1), single));
}

TEST(Parity, ToleranceIsOfAsValue) {
  EXPECT_TRUE(holds(100, 101, tolerance(0.01, 0)));
  EXPECT_FALSE(holds(100, 101.0001, tolerance(0.01, 0)));
  EXPECT_FALSE(holds(0, 1e-9, tolerance(0.01, 0)));
  EXPECT_TRUE(holds(0, 1e-9, tolerance(0, 1e-9)));
  EXPECT_TRUE(holds(10, 10.2, tolerance(0.01, 0.1)));
}

TEST(Parity, UlpMode) {
  const double next = std::nextafter(std::nextafter(1.0, 2), 2);
  EXPECT_TRUE(holds(1, next, ulp(2)));
  EXPECT_FALSE(holds(1, next, ulp(1)));
  EXPECT_TRUE(holds(0.0, -0.0, ulp(0)));
  EXPECT_TRUE(holds(1, next, ulp(0, Precision::fp32)));
}

TEST(Parity, NoModeAcceptsNan) {
  for (const ParityRule& rule : {ParityRule(), exact(), tolerance(1e300, 1e300), ulp(1e300)}) {
    EXPECT_FALSE(holds(1, kNaN, rule));
    EXPECT_FALSE(holds(kNaN, 1, rule));
    EXPECT_FALSE(holds(1, kInf, rule));
    EXPECT_FALSE(holds(kInf, -kInf, rule));
    EXPECT_FALSE(holds(kInf, kNaN, rule));
    for (const auto& [a, b] : {std::pair{kInf, kInf}, {kNaN, kNaN}, {kNaN, -kNaN}}) {
      EXPECT_TRUE(parity(curve({a, 1}), curve({b, 1}), rule).holds(rule));
      EXPECT_FALSE(holds(a, b, rule)) << "both have diverged";
    }
  }
}

TEST(Parity, OneOutlierAmongAThousandIsTooMany) {
  std::vector<double> a(1000, 1), b = a;
  b[700] = 1.5, b[300] = 1.1;
  const ParityRule rule = tolerance(1e-3, 0);
  const CurveParity c = parity(curve(a), curve(b), rule);
  EXPECT_FALSE(c.holds(rule));
  EXPECT_EQ(c.diverged, 2);
  EXPECT_EQ(c.first->step, 300);
  EXPECT_EQ(c.largest->step, 700);
}

TEST(Parity, MissingStepsAreNamedAndNotForgiven) {
  Curve a = curve({1, 1, 1, 1, 1, 1}), b = a;
  b.points.erase(b.points.begin() + 1, b.points.begin() + 3);
  a.points.erase(a.points.begin() + 5);
  ParityRule rule = exact();
  CurveParity c = parity(a, b, rule);
  EXPECT_THAT(c.missing_in_b, ElementsAre(1, 2));
  EXPECT_THAT(c.missing_in_a, ElementsAre(5));
  EXPECT_EQ(c.compared, 3);
  EXPECT_FALSE(c.holds(rule));
  rule.common = true;
  EXPECT_TRUE(c.holds(rule));
  EXPECT_EQ(ranges_text(std::vector{1, 2, 5}, 12), "1-2, 5");
  std::vector<std::int64_t> many;
  for (int i = 0; i < 100; ++i) many.push_back(2 * i);
  EXPECT_THAT(ranges_text(many, 12), HasSubstr("22 and 88 more"));
  EXPECT_EQ(ranges_text(std::vector{0, 1, 2, 8, 10, 11}, 2), "0-2, 8 and 2 more");
  EXPECT_EQ(ranges_text(std::vector<int>{}, 2), "");
}

ParityReport report_of(const Curve& a, const Curve& b, const ParityRule& rule) {
  return {{"a", "text"}, {"b", "text"}, rule, {parity(a, b, rule)}};
}

TEST(Parity, ExitCodes) {
  EXPECT_EQ(report_of(curve({1}), curve({1}), exact()).exit_code(), 0);
  EXPECT_EQ(report_of(curve({1}), curve({2}), exact()).exit_code(), 1);
  EXPECT_EQ(report_of(curve({1}), curve({1}, 5), exact()).exit_code(), 4);
  EXPECT_EQ(report_of(curve({kNaN}), curve({kNaN}), exact()).exit_code(), 1)
      << "both have diverged";
  EXPECT_EQ(report_of(curve({kNaN, 1}), curve({kNaN, 1}), exact()).exit_code(), 0);
  EXPECT_EQ(report_of(curve({1, kNaN}), curve({1, kNaN}), tolerance(1, 1)).exit_code(), 1);
  EXPECT_EQ(report_of(curve({1, kInf}), curve({1, kNaN}), {}).exit_code(), 1);
}

TEST(Parity, EveryRenderingNamesTheFirstDivergence) {
  const ParityReport report = report_of(curve({1, 0.1, kNaN}), curve({1, 0.25, 2}), ulp(4));
  EXPECT_THAT(parity_text(report),
              HasSubstr("first divergence at step 1: 0.1 and 0.25, differ by 0.15"));
  EXPECT_THAT(parity_text(report),
              HasSubstr("largest divergence at step 2: nan and 2, differ by inf"));
  EXPECT_THAT(parity_text(report), HasSubstr("2 of 3 steps diverge"));
  EXPECT_THAT(parity_markdown(report), HasSubstr("first divergence at step 1"));
  EXPECT_THAT(parity_html(report), HasSubstr("first divergence at step 1"));
  EXPECT_THAT(parity_html(report), HasSubstr("<figure>"));
  EXPECT_THAT(parity_html(report), HasSubstr("\"first\":1"));
  const auto json = nlohmann::json::parse(parity_json(report));
  EXPECT_EQ(json["curves"][0]["first"]["step"], 1);
  EXPECT_EQ(json["curves"][0]["largest"]["a"], "nan");
  EXPECT_EQ(json["exit_code"], 1);
}

}  // namespace
}  // namespace tidemark
