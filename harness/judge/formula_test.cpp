#include "harness/judge/formula.h"

#include <gtest/gtest.h>

namespace tidemark {
namespace {

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
