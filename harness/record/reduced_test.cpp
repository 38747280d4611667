#include "harness/record/reduced.h"

#include <gtest/gtest.h>

namespace tidemark {
namespace {

std::string text_of(const std::string& text) { return reduced({text, {}}).text; }

TEST(Reduced, LeavesOutWhatCancels) {
  EXPECT_EQ(text_of("(2*U + i*x) - (U + (i - 1)*x)"), "U + x");
  EXPECT_EQ(text_of("(rest + R + 2*d + G) - (rest + R + G + 2*d)"), "0");
  EXPECT_EQ(text_of("(n*x + a) - (x*n + 3)"), "a - 3");
  EXPECT_EQ(text_of("(rest + R + (3*i + 1)*x + (2*k + 1)*(L*B + B0) + B0 + (L - i + 1)*B) - "
                    "(rest + R + (3*i + 1)*x + B)"),
            "(2*k*L + 2*L - i)*B + (2*k + 2)*B0");
}

TEST(Reduced, IsASumForEachLastFactorAndTakesAwayAtTheEnd) {
  EXPECT_EQ(text_of("(q*(X + L*(2*X + F)) + F) - (b + q*(X + L*(4*X)) + F)"),
            "q*L*F - 2*q*L*X - b");
  EXPECT_EQ(text_of("(x) - ((L - i + 2)*x + y)"), "-(L - i + 1)*x - y");
  EXPECT_EQ(text_of("3*(a) - 5*(a) + 1 - (0*c)"), "1 - 2*a");
}

TEST(Reduced, WritesProductsOfSumsOutOnlyWhereThatIsShorter) {
  const std::string a = "((q - 1)*L + i - 1)*(2*X + 2*s + 2*F + A + g + 2*f)",
                    b = "((q - 1)*L + j - 1)*(2*X + 2*s + 2*F + A + g + f)";
  EXPECT_EQ(text_of("(rest + q*X + " + a + " + 3*X) - (rest + q*X + " + b + " + 5*X)"),
            "(q*L - L + 2*i - j - 1)*f + (2*i - 2*j - 2)*X + (2*i - 2*j)*s + (2*i - 2*j)*F + "
            "(i - j)*A + (i - j)*g");
  EXPECT_EQ(text_of("(u + (a + b + c)*(d + e + f) + x) - (x + (g + h + k)*(l + m + n))"),
            "u + (a + b + c)*(d + e + f) - (g + h + k)*(l + m + n)");
  EXPECT_EQ(text_of("(rest + " + a + ") - (" + a + " + d)"), "rest - d");
  EXPECT_EQ(text_of("(x + (a + b)*(c + d)) - ((d + c)*(b + a) + -(-y))"), "x - y");
}

TEST(Reduced, TakesWhatIsNoSumAsItStands) {
  EXPECT_EQ(text_of("(max(a, b) + block(n)*2) - (block(n) + max(a, b))"), "block(n)");
  EXPECT_EQ(text_of("(2*(a if b > 1 else c) + d) - ((a if b > 1 else c) + d)"),
            "(a if b > 1 else c)");
  EXPECT_EQ(text_of("(x^2 + y) - (y) + (a/b) - (z - z)"), "(x^2) + (a/b)");
}

TEST(Reduced, IsTheFormulaWhereItCannotBeShorter) {
  for (const char* text :
       {"a + b", "L*(B + U)", "", "a +", "0.5*a - 0.5*a", "2*(a + b)*(c + d)*(e + f)*(g + h)"})
    EXPECT_EQ(text_of(text), text);
  std::string large;
  for (const char c : std::string("abcde")) {
    const std::string one(1, c);
    large += (large.empty() ? "(" : "*(") + one + "1 + " + one + "2 + " + one + "3 + " + one +
             "4 + " + one + "5)";
  }
  EXPECT_EQ(text_of(large + " + x - x"), large + " + x - x") << "5^5 products";
}

TEST(Reduced, KeepsTheValuesThatAreLeft) {
  const Formula formula{"(L*U + d) - (d + U_2)", {{"U", 10}, {"U_2", 3}, {"L", 4}, {"d", 1}}};
  const Formula less = reduced(formula);
  EXPECT_EQ(less.text, "L*U - U_2");
  EXPECT_EQ(less.values.size(), 3u);
  EXPECT_EQ(less.evaluate(), formula.evaluate());
}

}  // namespace
}  // namespace tidemark
