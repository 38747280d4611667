#include "harness/record/formula.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace tidemark {
namespace {

using Values = std::map<std::string, double>;

std::string refused(const Formula& formula) {
  try {
    formula.evaluate();
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "";
}

TEST(Formula, IsExact) {
  EXPECT_EQ((Formula{"x + 1", {{"x", 9007199254740990.0}}}.evaluate()), 9007199254740991.0);
  EXPECT_EQ((Formula{"1/49*49", {}}.evaluate()), 1);
  EXPECT_EQ((Formula{"0.1*3 == 0.3", {}}.evaluate()), 1);
  EXPECT_EQ((Formula{"2^60 + 1 - 2^60", {}}.evaluate()), 1);
  EXPECT_EQ((Formula{"x*10 - 1", {{"x", 0.125}}}.evaluate()), 0.25);
}

TEST(Formula, HasTheOperatorsOfPython) {
  const struct {
    const char* text;
    Values values;
    double expected;
  } all[] = {{"2*B^2", {{"B", 3}}, 18},
             {"-a^2", {{"a", 3}}, -9},
             {"2^3^2", {}, 512},
             {"2**-1*4", {}, 2},
             {"7 - 2 - 1", {}, 4},
             {"8/2/2", {}, 2},
             {"block(1) + block(512) + block(0) + block(513)", {}, 2048},
             {"roundup(5, 4) + ceil(7/2) + floor(7/2) + min(3, 1) + max(1, 2, 9)", {}, 25},
             {"ceil(-7/2) + 10*floor(-7/2)", {}, -43},
             {"(a > 2)*5", {{"a", 3}}, 5},
             {"1.5*n + .5 + 1e2 + 25e-1", {{"n", 2}}, 106},
             {"max((a ? b : 0) + 1, a > 1 ? 2 : (b ? 9 : 4), 3)", {{"a", 1}, {"b", 5}}, 9},
             {"if_a + elsewhere", {{"if_a", 1}, {"elsewhere", 2}}, 3}};
  for (const auto& [text, values, expected] : all)
    EXPECT_EQ((Formula{text, values}.evaluate()), expected) << text;
}

TEST(Formula, HasTheConditionalOfPythonAndThatOfC) {
  const auto value = [](const char* text, double a) {
    return Formula{text, {{"a", a}}}.evaluate();
  };
  EXPECT_EQ(value("10 + (7 if a > 3 else 5)*2", 4), 24);
  EXPECT_EQ(value("10 + (7 if a > 3 else 5)*2", 3), 20);
  for (const double a : {1, 2, 3}) {
    EXPECT_EQ(value("1 if a == 1 else 2**3 if a == 2 else a^2", a), a == 3 ? 9 : a == 2 ? 8 : 1);
    EXPECT_EQ(value("a == 1 ? 1 : a == 2 ? 2**3 : a^2", a), a == 3 ? 9 : a == 2 ? 8 : 1);
  }
  EXPECT_EQ(value("max(6/a if a else 2, 1)", 0), 2) << "what is not chosen is not computed";
  EXPECT_EQ(value("a ? 6/a : 2", 0), 2);
  EXPECT_THROW(value("0/a if 1 else 5", 0), std::invalid_argument) << "0/0 is no number";
}

TEST(Formula, KeepsTheValuesThatItsTextUses) {
  const auto kept = only_used({"L*U - U_2", {{"U", 10}, {"U_2", 3}, {"L", 4}, {"unused", 1}}});
  EXPECT_EQ(kept.values, (Values{{"U", 10}, {"U_2", 3}, {"L", 4}}));
  EXPECT_EQ(kept.evaluate(), 37);
}

TEST(Formula, HasTermsThatSumToItsValue) {
  const Formula formula{"2*a + (b - 3) - c^2 + d/2", {{"a", 1}, {"b", 10}, {"c", 2}, {"d", 8}}};
  const std::vector<std::pair<std::string, double>> expected{
      {"2*a", 2}, {"(b - 3)", 7}, {"-c^2", -4}, {"d/2", 4}};
  EXPECT_EQ(formula.terms(), expected);
  EXPECT_EQ(formula.evaluate(), 9);
}

TEST(Formula, NamesWhatIsWrong) {
  const std::pair<const char*, const char*> all[] = {
      {"P + nothing", "has no value for nothing"},
      {"1 / (P - 1)", "divides by 0"},
      {"0^-1", "divides by 0"},
      {"(", "'(' is not an expression"},
      {"", "is not an expression"},
      {"7 if P", "is not an expression"},
      {"1 ? 2", "is not an expression"},
      {"1 : 2 ? 3", "is not an expression"},
      {"1 ? 2 : 3 : 4", "is not an expression"},
      {"P P", "is not an expression"},
      {"1 < P < 3", "is not an expression"},
      {"P.real", "is not an expression"},
      {"max()", "gives max 0 arguments"},
      {"block(1, 2)", "gives block 2 arguments"},
      {"sqrt(4)", "has the function sqrt, which is none"},
      {"roundup(5, 0)", "granule that is not positive"},
      {"2^1000", "has the exponent 1000"},
      {"2^0.5", "has the exponent 0.5"},
      {"((2^64)^64)^64", "more than 127 bits"},
      {"1e99", "more than 127 bits"},
      {"1e9999", "'1e9999', which is not a number"},
      {"1.2.3", "'1.2.3', which is not a number"},
      {"0x10", "'0x10', which is not a number"},
      {"1e", "'1e', which is not a number"}};
  for (const auto& [text, why] : all)
    EXPECT_NE(refused({text, {{"P", 1}}}).find(why), std::string::npos)
        << text << ": " << refused({text, {{"P", 1}}});
  EXPECT_NE(refused({std::string(400, '(') + "1" + std::string(400, ')'), {}}).find("not an expr"),
            std::string::npos);
  EXPECT_NE(refused({std::string(400, '-') + "1", {}}).find("not an expression"),
            std::string::npos);
  EXPECT_EQ(refused({"1\n+", {}}).find('\n'), std::string::npos);
}

}  // namespace
}  // namespace tidemark
