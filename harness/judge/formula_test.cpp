#include "harness/judge/formula.h"

#include <gtest/gtest.h>

namespace tidemark {
namespace {

TEST(Formula, IsEvaluatedFromItsText) {
  EXPECT_EQ((Formula{"S + N + 2*U", {{"S", 10}, {"N", 3}, {"U", 838860800}}}.evaluate()),
            1677721613.0);
  EXPECT_EQ((Formula{"a > b ? a : b", {{"a", 1}, {"b", 2}}}.evaluate()), 2.0);
  EXPECT_EQ((Formula{"2*L*k + L - 1", {{"L", 4}, {"k", 3}}}.evaluate()), 27.0);
}

TEST(Formula, RoundsLikeTheAllocator) {
  EXPECT_EQ((Formula{"block(0)", {}}.evaluate()), 0.0);
  EXPECT_EQ((Formula{"block(1)", {}}.evaluate()), 512.0);
  EXPECT_EQ((Formula{"block(512) + block(513)", {}}.evaluate()), 1536.0);
  EXPECT_EQ((Formula{"roundup(n, 2097152)", {{"n", 2097153}}}.evaluate()), 4194304.0);
}

TEST(Formula, IsExactForPetabytes) {
  EXPECT_EQ((Formula{"x + 1", {{"x", 9007199254740990.0}}}.evaluate()), 9007199254740991.0);
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
