// The line of advice that comes first.
#include "reports/fit/advice.h"

#include <gtest/gtest.h>

namespace tidemark {
namespace {

AdviceRow row(const char* change, Bytes saved) {
  AdviceRow out;
  out.change = change;
  out.run = FitRun();
  out.reserved_saved = saved;
  return out;
}

TEST(Advice, TheChangeThatSavesMostComesFirst) {
  Advice advice;
  advice.run.reserved = 8 << 20;
  advice.rows = {row("first", 2 << 20), row("best", 3 << 20), row("dearer", -(4 << 20)),
                 row("last", 1 << 20)};
  EXPECT_EQ(advice_lines(advice).front(), "best saves 3 MiB of 8 MiB");
  advice.rows = {row("dearer", -(4 << 20))};
  EXPECT_EQ(advice_lines(advice).front(), "no change that was tried saves reserved memory");
}

}  // namespace
}  // namespace tidemark
