// Peaks of phases: which events belong to which.
#include "harness/memory/phases.h"

#include <gmock/gmock.h>

#include "harness/memory/testing/trace.h"
#include "reports/snapshot/render.h"

namespace tidemark {
namespace {

using namespace snapshot_testing;

/// Levels of active after its events: 100, 400, 400, 100, 150, 850, 850, 150.
Snapshot training() {
  Snapshot s;
  s.traces = {{event(AllocatorAction::alloc, 0, 100), event(AllocatorAction::alloc, 1, 300),
               event(AllocatorAction::free_requested, 1, 300),
               event(AllocatorAction::free_completed, 1, 300), event(AllocatorAction::alloc, 2, 50),
               event(AllocatorAction::alloc, 3, 700),
               event(AllocatorAction::free_requested, 3, 700),
               event(AllocatorAction::free_completed, 3, 700)}};
  Segment segment;
  segment.address = kBase, segment.total_size = 4 * 512;
  segment.blocks = {{kBase, 512, 100, BlockState::allocated, 0},
                    {kBase + 512, 512, 0, BlockState::inactive, 0},
                    {kBase + 1024, 512, 50, BlockState::allocated, 0},
                    {kBase + 1536, 512, 0, BlockState::inactive, 0}};
  s.segments = {segment};
  return s;
}

std::vector<std::string> text_of(const Snapshot& s) {
  std::vector<std::string> lines;
  const DeviceSummary device = analyse(s).at(0);
  for (const PhasePeak& one : device.phases)
    lines.push_back(std::to_string(one.step) + " " + one.name + " " +
                    std::to_string(one.peak.active) + " " + std::to_string(one.peak.allocated));
  return lines;
}

TEST(Phases, HaveTheEventsBetweenTheirMoments) {
  Snapshot s = training();
  s.phases = {{0, {0, 0}, {1, 0}, "forward", 1},
              {0, {1, 0}, {2, 1}, "backward", 1},   // 400 lies within it
              {0, {2, 1}, {3, 1}, "forward", 2},    // begins at 100
              {0, {3, 1}, {3, 1}, "optimizer", 2},  // nothing happens: the level
              {0, {3, 1}, {4, 2}, "backward", 2},
              {1, {0, 0}, {4, 2}, "of another device", 1},
              {0, {9, 0}, {9, 1}, "not in the trace", 1}};
  EXPECT_THAT(text_of(s),
              testing::ElementsAre("1 forward 100 100", "1 backward 400 400", "2 forward 150 150",
                                   "2 optimizer 150 150", "2 backward 850 850"));
}

TEST(Phases, OfOneNameInAStepAreTheirHighest) {
  Snapshot s = training();
  s.phases = {{0, {2, 1}, {3, 1}, "backward", 1},
              {0, {3, 1}, {4, 2}, "backward", 1},
              {0, {0, 0}, {1, 0}, "forward", 1}};
  EXPECT_THAT(text_of(s), testing::ElementsAre("1 forward 100 100", "1 backward 850 850"));
}

TEST(Phases, RowsAreTheFirstTheHighestAndTheLast) {
  DeviceSummary d;
  for (std::int64_t step = 1; step <= 6; ++step) {
    d.phases.push_back({step, "forward", {0, step == 4 ? 99 : 10 * step, 0}});
    if (step != 2) d.phases.push_back({step, "backward", {0, step, 0}});
  }
  using Rows = std::vector<std::vector<std::string>>;
  EXPECT_EQ(phase_rows(d, 2), (Rows{{"step", "forward", "backward"},
                                    {"1", "10", "1"},
                                    {"2", "20", ""},
                                    {"4, the highest", "99", "4"},
                                    {"6", "60", "6"}}));
  EXPECT_TRUE(phase_rows({}, 2).empty());
}

}  // namespace
}  // namespace tidemark
