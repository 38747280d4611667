// A rank that gets further is left alone, one that does not is ended.
#include "harness/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tidemark {
namespace {

using std::chrono::milliseconds;

TEST(Watchdog, BitesOnceWhereNothingMoves) {
  std::atomic<int> bites = 0;
  {
    const Watchdog watchdog([] { return std::uint64_t{7}; }, milliseconds(20), [&] { ++bites; });
    for (int i = 0; i < 500 && bites == 0; ++i) std::this_thread::sleep_for(milliseconds(10));
    std::this_thread::sleep_for(milliseconds(100));
  }
  EXPECT_EQ(bites, 1);
}

TEST(Watchdog, LeavesAloneWhatMovesAndWhatHasEnded) {
  std::atomic<int> bites = 0;
  std::atomic<std::uint64_t> beats = 0;
  {
    // It moves with each look, so that a machine which stands still for a while does not count.
    const Watchdog watchdog([&] { return ++beats; }, milliseconds(10), [&] { ++bites; });
    std::this_thread::sleep_for(milliseconds(200));
  }
  EXPECT_EQ(bites, 0);
  EXPECT_GT(beats, 2u);
  const auto begin = std::chrono::steady_clock::now();
  {
    const Watchdog watchdog([] { return std::uint64_t{1}; }, milliseconds(60'000),
                            [&] { ++bites; });
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(bites, 0);
}

}  // namespace
}  // namespace tidemark
