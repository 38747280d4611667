// A rank that gets further is left alone; one that does not, or that is in trouble, is ended.
#include "harness/ranks/watchdog.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

namespace tidemark {
namespace {

using std::chrono::milliseconds;

const auto kWell = [] { return std::string(); };

TEST(Watchdog, BitesOnceWhereNothingMoves) {
  std::atomic<int> bites = 0;
  {
    const auto watchdog =
        start_watchdog({[] { return std::uint64_t{7}; }, kWell}, milliseconds(20),
                       [&](const std::string& trouble) { bites += trouble.empty() ? 1 : 9; });
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
    const auto watchdog = start_watchdog({[&] { return ++beats; }, kWell}, milliseconds(10),
                                         [&](const std::string&) { ++bites; });
    std::this_thread::sleep_for(milliseconds(200));
  }
  EXPECT_EQ(bites, 0);
  EXPECT_GT(beats, 2u);
  const auto begin = std::chrono::steady_clock::now();
  {
    const auto watchdog =
        start_watchdog({[] { return std::uint64_t{1}; }, kWell}, milliseconds(60'000),
                       [&](const std::string&) { ++bites; });
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(bites, 0);
}

TEST(Watchdog, BitesAtOnceWhereThereIsTrouble) {
  std::atomic<int> looks = 0, bites = 0;
  std::string message;  // read when the watchdog is gone
  const auto begin = std::chrono::steady_clock::now();
  {
    std::atomic<std::uint64_t> beats = 0;  // however far it gets
    const auto watchdog = start_watchdog(
        {[&] { return ++beats; }, [&] { return std::string(++looks > 3 ? "it is broken" : ""); }},
        milliseconds(60'000), [&](const std::string& trouble) {
          message = trouble;
          ++bites;
        });
    for (int i = 0; i < 2000 && bites == 0; ++i) std::this_thread::sleep_for(milliseconds(10));
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(30));
  EXPECT_EQ(bites, 1);
  EXPECT_EQ(looks, 4);
  EXPECT_EQ(message, "it is broken");
}

}  // namespace
}  // namespace tidemark
