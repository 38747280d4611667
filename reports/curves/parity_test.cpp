// Equality of two curves, and the step where they part.
#include "reports/curves/parity.h"

#include <gmock/gmock.h>

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>

namespace tidemark {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

Curve curve(const std::vector<double>& values, std::int64_t first = 0) {
  Curve out{"loss", {}};
  for (double v : values) out.points.push_back({first++, v});
  return out;
}

ParityRule exact() { return {}; }
ParityRule tolerance(double rtol, double atol) { return {ParityMode::tolerance, rtol, atol}; }
ParityRule ulp(double n, bool single = false) { return {ParityMode::ulp, 0, 0, n, single}; }

bool holds(double a, double b, const ParityRule& rule) {
  return parity(curve({a}), curve({b}), rule).holds(rule);
}

constexpr double kInf = std::numeric_limits<double>::infinity();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

TEST(Parity, UlpsCountRepresentableNumbers) {
  EXPECT_EQ(ulps_between(1, 1, false), 0);
  EXPECT_EQ(ulps_between(1, std::nextafter(1.0, 2), false), 1);
  EXPECT_EQ(ulps_between(1, std::nextafter(1.0, 0), false), 1);
  EXPECT_EQ(ulps_between(-5e-324, 5e-324, false), 2);
  EXPECT_EQ(ulps_between(-0.0, 0.0, false), 0);
  EXPECT_EQ(ulps_between(1, std::nextafter(1.0, 2), true), 0) << "the same float32";
  EXPECT_EQ(ulps_between(1, 1 + std::numeric_limits<float>::epsilon(), true), 1);
  EXPECT_EQ(ulps_between(2, 1, false), std::pow(2.0, 52));
  EXPECT_GT(ulps_between(-1e308, 1e308, false), 1.8e19);
  EXPECT_EQ(ulps_between(1, kNaN, false), kInf);
  EXPECT_EQ(ulps_between(kNaN, kNaN, false), 0);
  EXPECT_EQ(ulps_between(kInf, std::numeric_limits<double>::max(), false), kInf);
  EXPECT_EQ(ulps_between(-kInf, -kInf, false), 0);
}

TEST(Parity, ExactIsBits) {
  EXPECT_TRUE(holds(0.1, 0.1, exact()));
  EXPECT_FALSE(holds(0.1, std::nextafter(0.1, 1), exact()));
  EXPECT_FALSE(holds(0.0, -0.0, exact()));
  ParityRule single;
  single.single = true;
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
  EXPECT_TRUE(holds(1, next, ulp(0, true)));
}

TEST(Parity, NoModeAcceptsNan) {
  for (const ParityRule& rule : {exact(), tolerance(1e300, 1e300), ulp(1e300)}) {
    EXPECT_FALSE(holds(1, kNaN, rule));
    EXPECT_FALSE(holds(kNaN, 1, rule));
    EXPECT_FALSE(holds(1, kInf, rule));
    EXPECT_FALSE(holds(kInf, -kInf, rule));
    EXPECT_FALSE(holds(kInf, kNaN, rule));
    EXPECT_TRUE(holds(kInf, kInf, rule));
    EXPECT_TRUE(holds(kNaN, kNaN, rule));
    EXPECT_TRUE(holds(kNaN, -kNaN, rule));
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
  ParityRule rule;
  CurveParity c = parity(a, b, rule);
  EXPECT_THAT(c.missing_in_b, ElementsAre(1, 2));
  EXPECT_THAT(c.missing_in_a, ElementsAre(5));
  EXPECT_EQ(c.compared, 3);
  EXPECT_FALSE(c.holds(rule));
  rule.common = true;
  EXPECT_TRUE(c.holds(rule));
  EXPECT_EQ(steps_text({1, 2, 5}), "1-2, 5");
  std::vector<std::int64_t> many;
  for (int i = 0; i < 100; ++i) many.push_back(2 * i);
  EXPECT_THAT(steps_text(many), HasSubstr("22 and 88 more"));
}

ParityReport report_of(const Curve& a, const Curve& b, const ParityRule& rule) {
  return {{"a", "text"}, {"b", "text"}, rule, {parity(a, b, rule)}};
}

TEST(Parity, ExitCodes) {
  EXPECT_EQ(report_of(curve({1}), curve({1}), exact()).exit_code(), 0);
  EXPECT_EQ(report_of(curve({1}), curve({2}), exact()).exit_code(), 1);
  EXPECT_EQ(report_of(curve({1}), curve({1}, 5), exact()).exit_code(), 4);
  EXPECT_EQ(report_of(curve({kNaN}), curve({kNaN}), exact()).exit_code(), 4) << "proves nothing";
  EXPECT_EQ(report_of(curve({kNaN, 1}), curve({kNaN, 1}), exact()).exit_code(), 0);
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
  const auto json = nlohmann::json::parse(parity_json(report));
  EXPECT_EQ(json["curves"][0]["first"]["step"], 1);
  EXPECT_EQ(json["curves"][0]["largest"]["a"], "nan");
  EXPECT_EQ(json["exit_code"], 1);
}

}  // namespace
}  // namespace tidemark
