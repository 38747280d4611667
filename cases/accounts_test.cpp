// Accounts of the allocator's model, and their sums, derived by hand.
#include "cases/accounts.h"

#include <gtest/gtest.h>

#include <stdexcept>

namespace tidemark {
namespace {

using reference::Allocator;
using reference::Amount;
using reference::PlanFault;

constexpr Bytes kMiB = 1 << 20;

std::string text(const reference::Account& account, Statistic statistic) {
  return sum_of(account, statistic).text;
}

TEST(Accounts, OfAPeakHaveWhatWasAliveThen) {
  Allocator memory(/*instant=*/true);
  memory.allocate({100, "rest"}, 0);
  auto* x = memory.allocate({1000, "x"}, 0);
  memory.allocate({1000, "x"}, 0);
  memory.at("the product");
  auto* y = memory.allocate({3000, "y"}, 0);
  memory.at("after it");
  memory.free(y);
  memory.free(x);
  const auto& peak = memory.at_peaks().requested;
  const auto sum = sum_of(peak, Statistic::requested);
  EXPECT_EQ(sum.text, "rest + y + 2*x");
  EXPECT_EQ(sum.evaluate(), 5100);
  EXPECT_EQ(peak.where, "the product");
  EXPECT_EQ(sum_of(memory.at_peaks().allocated, Statistic::allocated).evaluate(),
            512 + 3072 + 2 * 1024);
  EXPECT_EQ(text(memory.active_now(), Statistic::requested), "rest + x");
  memory.reset_peaks();  // a phase begins, in which nothing is as high
  EXPECT_EQ(text(memory.at_peaks().requested, Statistic::requested), "rest + x");
}

TEST(Accounts, OfSeveralSizesAreTheirSum) {
  Allocator memory(/*instant=*/true);
  for (const Bytes bytes : {600, 600, 1200}) memory.allocate({bytes, "x"}, 0);
  const auto sum = sum_of(memory.allocated_now(), Statistic::allocated);
  EXPECT_EQ(sum.text, "x");
  EXPECT_EQ(sum.values.at("x"), 2 * 1024 + 1536);
}

// A segment of 12 MiB for 11 MiB: the rest of 1 MiB is not split off.
TEST(Accounts, OfAllocatedBytesHaveWhatBlocksKeep) {
  Allocator memory(/*instant=*/true);
  memory.allocate({11 * kMiB, "x"}, 0);
  const auto sum = sum_of(memory.allocated_now(), Statistic::allocated);
  EXPECT_EQ(sum.text, "x + unsplit");
  EXPECT_EQ(sum.evaluate(), memory.allocated.current);
  EXPECT_EQ(sum.values.at("unsplit"), kMiB);
  EXPECT_EQ(text(memory.active_now(), Statistic::requested), "x");
}

TEST(Accounts, OfActiveBytesHaveWhatWaitsForAStream) {
  Allocator memory(/*instant=*/false);
  auto* x = memory.allocate({1000, "x"}, 0);
  memory.record(x, 1);
  memory.enqueue(1);
  memory.free(x);
  EXPECT_EQ(text(memory.allocated_now(), Statistic::allocated), "0");
  EXPECT_EQ(text(memory.active_now(), Statistic::active), "x");
}

// The bounds lie 1 MiB apart, for the one tensor over 1 MiB; none are given for 2 MiB, of which
// that would be half.
TEST(Accounts, InAnyBlockAreBoundsOrNothing) {
  for (const Bytes large : {64 * kMiB, 2 * kMiB}) {
    Allocator memory(/*instant=*/true);
    memory.allocate({large, "x"}, 0);
    memory.allocate({512, "y"}, 0);
    const auto& [highest, widest] = memory.at_peaks().in_any_block;
    EXPECT_EQ(widest, large + kMiB + 512);
    const auto bounds =
        in_any_block(accounted(Statistic::allocated, "p", false, highest), highest, widest);
    ASSERT_EQ(bounds.size(), large == 2 * kMiB ? 0u : 1u);
    if (bounds.empty()) continue;
    EXPECT_EQ(bounds[0].formula.evaluate(), static_cast<double>(large + 512));
    EXPECT_EQ(bounds[0].slack, kMiB);
  }
}

TEST(Accounts, RefuseAnAllocationWithoutASymbol) {
  Allocator memory(/*instant=*/true);
  memory.allocate(1000, 0);
  EXPECT_THROW(sum_of(memory.allocated_now(), Statistic::allocated), std::logic_error);
}

TEST(PlanFaults, ChangeOneAllocation) {
  struct Found {
    Bytes peak, end;
    bool operator==(const Found&) const = default;
  };
  const auto with = [](PlanFault::Kind kind) {
    PlanFault fault{kind, /*allocation=*/1};
    Allocator::fault = &fault;
    Allocator memory(/*instant=*/true);
    for (const char* symbol : {"a", "b", "c"}) memory.free(memory.allocate({1000, symbol}, 0));
    Allocator::fault = nullptr;
    EXPECT_EQ(fault.allocations, 3);
    EXPECT_EQ(fault.symbols.size(), 3u);
    const Found figures{memory.requested.peak, memory.requested.current};
    memory.reset_peaks();  // a block that is freed late goes with its phase
    EXPECT_EQ(memory.requested.current, 0);
    return figures;
  };
  EXPECT_EQ(with(PlanFault::none), (Found{1000, 0}));
  EXPECT_EQ(with(PlanFault::dropped), (Found{1000, 0}));  // the others are as high
  EXPECT_EQ(with(PlanFault::doubled), (Found{2000, 0}));
  EXPECT_EQ(with(PlanFault::freed_late), (Found{2000, 1000}));
}

}  // namespace
}  // namespace tidemark
