#include "harness/record/units.h"

#include <gtest/gtest.h>

#include <cstring>
#include <nlohmann/json.hpp>
#include <random>
#include <string>

#include "reports/paint.h"

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

TEST(Units, NothingIsWrittenAsZeroThatIsNone) {
  const ByteUnit mib = unit_for(2 << 20);
  EXPECT_EQ(mib(0), "0.00");
  EXPECT_EQ(mib(4), "<0.01");
  EXPECT_EQ(mib(5000), "<0.01");
  EXPECT_EQ(mib(6000), "0.01");
  EXPECT_EQ(unit_for(Bytes{20} << 30)(1 << 20), "<0.01");
  EXPECT_EQ(unit_for(900)(1), "1");
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
  EXPECT_EQ(one_line("a\xe2\x80\xa8"
                     "b"),
            "a b");  // a line separator
}

// Any bytes: what is printed is UTF-8 without controls, and colours are those of Paint alone.
TEST(Units, NothingThatATerminalObeysIsPrinted) {
  std::mt19937 random(std::random_device{}());
  const std::string pieces[] = {"\x1b",
                                "[31m",
                                "\x01",
                                "31",
                                "\x02",
                                "\n",
                                "\xc2",
                                "\x9b",
                                "\xe2\x80\xa8",
                                "\xff",
                                "a",
                                "\r",
                                "\x7f",
                                "\xf0\x9f\x8c\x8a",
                                std::string(1, '\0')};
  for (int round = 0; round < 5000; ++round) {
    std::string text;
    for (std::size_t n = random() % 12; n > 0; --n)
      text += random() % 3 == 0 ? std::string(1, static_cast<char>(random()))
                                : pieces[random() % std::size(pieces)];
    const std::string line = one_line(text);
    EXPECT_EQ(line.find_first_of(std::string("\n\r\x1b\x01\x02\x7f\0", 7)), std::string::npos);
    EXPECT_EQ(line.find("\xc2\x9b"), std::string::npos);
    EXPECT_EQ(one_line(line), line);
    EXPECT_FALSE(nlohmann::json(line).dump().empty());  // throws where it is not UTF-8
    std::string shown = printable(text);
    for (const char* code : {"\x1b[31m", "\x1b[1m", "\x1b[0m"})
      for (std::size_t at; (at = shown.find(code)) != std::string::npos;)
        shown.erase(at, std::strlen(code));
    if (text.find('\x01') == std::string::npos) EXPECT_EQ(shown.find('\x1b'), std::string::npos);
    EXPECT_EQ(printable(line), line);
  }
  EXPECT_EQ(printable(Paint{true}.red("a") + "\n"), "\x1b[31ma\x1b[0m\n");
  EXPECT_EQ(printable("\x01"
                      "31;1\x02\x01\x02\x01x\x02"),
            " 31;1    x ");
}

TEST(Units, Durations) {
  EXPECT_EQ(duration(999), "999 ns");
  EXPECT_EQ(duration(1500), "1.5 us");
  EXPECT_EQ(duration(53'200'000), "53.2 ms");
  EXPECT_EQ(duration(1'234'000'000), "1.23 s");
}

}  // namespace
}  // namespace tidemark
