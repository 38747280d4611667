// The shadow against a detector that keeps everything: random programs on streams with events and
// host synchronisations; both must agree on the first racy operation.
#include "harness/virtual/race/shadow.h"

#include <gtest/gtest.h>

#include <optional>
#include <random>

namespace tidemark::race {
namespace {

struct Simulation {
  explicit Simulation(std::uint32_t seed) : random(seed) {}
  std::mt19937 random;
  static constexpr std::uint32_t kStreams = 4;
  VectorClock clocks[kStreams], host, events[3];
  std::uint64_t counts[kStreams] = {};
  std::vector<Access> everything;
  Shadow shadow;

  std::size_t below(std::size_t n) { return random() % n; }

  Footprint footprint() {
    Footprint f{4096 + 4 * below(24), 4 * (1 + below(12)), 1, 0};
    if (below(3) == 0) f = {4096 + 4 * below(8), 4 * (1 + below(3)), 2 + below(5), 16};
    return f;
  }
  bool naive(const Access& access, const Order& order) const {
    for (const Access& old : everything) {
      if ((old.write || access.write) && !order.after(old) &&
          common_bytes(old.where, access.where, 0, ~std::uintptr_t{0}) > 0)
        return true;
    }
    return false;
  }
  /// True if this step races, by the shadow and by the whole history.
  std::pair<bool, bool> step() {
    const auto s = static_cast<std::uint32_t>(below(kStreams));
    switch (below(8)) {
      case 0:
        events[below(3)] = clocks[s];
        return {};
      case 1:
      case 2:
        clocks[s].merge(events[below(3)]);
        return {};
      case 3:
        host.merge(below(2) ? clocks[s] : events[below(3)]);
        if (below(2)) shadow.forget(host);
        return {};
      default:
        break;
    }
    clocks[s].raise(s, ++counts[s]);
    Access access{.where = footprint(), .stream = s, .place = counts[s], .write = below(3) == 0};
    const Order order{clocks[s], host};
    std::vector<Conflict> conflicts;
    shadow.record(access, order, conflicts);
    const bool expected = naive(access, order);
    everything.push_back(access);
    return {!conflicts.empty(), expected};
  }
};

TEST(Shadow, FindsTheFirstRaceOfARandomProgramWhereTheWholeHistoryHasIt) {
  int racy = 0, clean = 0, late = 0;
  for (std::uint32_t seed = 0; seed < 3000; ++seed) {
    Simulation simulation(seed);
    bool raced = false;
    for (int i = 0; i < 40 && !raced; ++i) {
      const auto [has_conflict, expected] = simulation.step();
      ASSERT_EQ(expected, has_conflict) << "seed " << seed << ", step " << i;
      raced = has_conflict;
      late += raced && i > 10;
    }
    raced ? ++racy : ++clean;
  }
  EXPECT_GT(racy, 500);
  EXPECT_GT(late, 300);
}

Access at(std::uintptr_t begin, std::size_t width, std::uint32_t stream, std::uint64_t place,
          bool write) {
  return {.where = {begin, width, 1, 0}, .stream = stream, .place = place, .write = write};
}

TEST(Shadow, GrowsTogetherAgain) {
  Shadow shadow;
  VectorClock clock, host;
  std::vector<Conflict> conflicts;
  for (std::uint64_t i = 1; i <= 100; ++i) {
    clock.raise(0, i);
    shadow.record(at(100 * i, 100, 0, i, true), {clock, host}, conflicts);
  }
  EXPECT_EQ(100U, shadow.size());
  clock.raise(0, 101);
  shadow.record(at(100, 10000, 0, 101, true), {clock, host}, conflicts);
  EXPECT_EQ(1U, shadow.size());
  host.merge(clock);
  shadow.forget(host);
  EXPECT_EQ(0U, shadow.size());
  EXPECT_TRUE(conflicts.empty());
}

TEST(Shadow, CountsTheSharedBytesOfAllPieces) {
  Shadow shadow;
  const VectorClock nothing;
  std::vector<Conflict> conflicts;
  shadow.record(at(0, 1000, 1, 1, true), {nothing, nothing}, conflicts);
  shadow.record(at(300, 10, 1, 1, false), {nothing, nothing}, conflicts);
  conflicts.clear();
  shadow.record(at(200, 500, 2, 1, false), {nothing, nothing}, conflicts);
  ASSERT_EQ(1U, conflicts.size());
  EXPECT_EQ(500U, conflicts[0].bytes);
}

}  // namespace
}  // namespace tidemark::race
