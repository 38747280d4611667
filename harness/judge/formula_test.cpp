#include "harness/judge/formula.h"

#include <gtest/gtest.h>

namespace tidemark {
namespace {

TEST(Formula, IsExactForPetabytes) {
  EXPECT_EQ((Formula{"x + 1", {{"x", 9007199254740990.0}}}.evaluate()), 9007199254740991.0);
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
  EXPECT_EQ(value("max(6/a if a else 2, 1)", 0), 2);
  EXPECT_THROW(value("0/a if 1 else 5", 0), std::invalid_argument) << "0/0 is no number";
  EXPECT_THROW(value("7 if a", 0), std::invalid_argument) << "without else there is none";
}

TEST(Formula, KeepsTheValuesThatItsTextUses) {
  const auto kept = only_used({"L*U - U_2", {{"U", 10}, {"U_2", 3}, {"L", 4}, {"unused", 1}}});
  EXPECT_EQ(kept.values, (std::map<std::string, double>{{"U", 10}, {"U_2", 3}, {"L", 4}}));
  EXPECT_EQ(kept.evaluate(), 37);
}

TEST(Formula, NamesWhatIsWrong) {
  auto message = [](const Formula& formula) -> std::string {
    try {
      formula.evaluate();
    } catch (const std::invalid_argument& error) {
      return error.what();
    }
    return "";
  };
  EXPECT_NE(message({"P + nothing", {{"P", 1}}}).find("nothing"), std::string::npos);
  EXPECT_NE(message({"1 / z", {{"z", 0}}}).find("1 / z"), std::string::npos);
  EXPECT_NE(message({"(", {}}).find("'('"), std::string::npos);
}

}  // namespace
}  // namespace tidemark
