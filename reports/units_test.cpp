#include "reports/units.h"

#include <gtest/gtest.h>

namespace tidemark {
namespace {

TEST(Units, LargestAndSmallestBothShow) {
  const Bytes mib = 1 << 20, gib = Bytes{1} << 30;
  EXPECT_EQ(unit_for(420 * gib)(420 * gib), "420.00");
  EXPECT_STREQ(unit_for(2 * mib).name, "MiB");
  EXPECT_STREQ(unit_for(2 * mib, 15 << 10).name, "KiB");
  EXPECT_EQ(unit_for(2 * mib, 15 << 10)(15 << 10), "15.0");
  EXPECT_STREQ(unit_for(420 * gib, 3 * mib).name, "GiB");  // both cannot
  EXPECT_STREQ(unit_for(9999).name, "bytes");
  EXPECT_STREQ(unit_for(0).name, "bytes");
}

TEST(Units, ExactKeepsEveryDigit) {
  EXPECT_EQ(exact(0), "0");
  EXPECT_EQ(exact(999), "999");
  EXPECT_EQ(exact(1000), "1,000");
  EXPECT_EQ(exact(-838860800), "-838,860,800");
  EXPECT_EQ(exact(123456), "123,456");
  EXPECT_EQ(exact(0.1), "0.1");
  EXPECT_EQ(exact(1e300), "1e+300");
}

TEST(Units, OneLineLeavesNoControlCharacters) {
  EXPECT_EQ(one_line("a\nb\tc\x1b[31m\x7f"), "a b c [31m ");
  EXPECT_EQ(one_line("\xc2\x9b"
                     "31m"),
            " 31m");  // a C1 control
  EXPECT_EQ(one_line("\xff\xc3\xa9\xed\xa0\x80\xf0\x9f\x8c\x8a\xe2"),
            "?\xc3\xa9???\xf0\x9f\x8c\x8a?");
}

TEST(Units, Durations) {
  EXPECT_EQ(duration(999), "999 ns");
  EXPECT_EQ(duration(1500), "1.5 us");
  EXPECT_EQ(duration(53'200'000), "53.2 ms");
  EXPECT_EQ(duration(1'234'000'000), "1.23 s");
}

}  // namespace
}  // namespace tidemark
