// Events of two machines' allocators, compared with each other: equal is equal, and whatever is
// changed is found where it was changed.
#include "reports/events/events.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <functional>

#include "harness/record/json.h"
#include "harness/testing/refusal.h"
#include "reports/events/compare_events.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TrialRecord trial(const std::string& schedule) {
  return {.scenario = "toy",
          .size = "smoke",
          .schedule = schedule,
          .ranks = 2,
          .steps = 2,
          .params = {{"n", 7}}};
}

MemoryHistory step_of(std::vector<AllocatorEvent> events) {
  MemoryHistory step;
  step.traces = {std::move(events)};
  step.streams = {{0, "default stream"}, {1, "stream 1"}};
  step.set_operators({"", "aten::mm"});
  return step;
}

/// Two steps of one buffer on the default stream and one that a second stream still uses, at
/// addresses that begin at `base`.
RankRecord record(std::int64_t base) {
  RankRecord rank;
  rank.rank = 1;
  const std::int64_t low = base, high = base + 4096;
  rank.events.push_back(step_of({{AllocatorAction::segment_alloc, base, 2 << 20, 0, 5}}));
  for (int step = 0; step < 2; ++step) {
    rank.events.push_back(step_of({{AllocatorAction::alloc, low, 4000, 0, 10, 1},
                                   {AllocatorAction::alloc, high, 512, 1, 11},
                                   {AllocatorAction::free_requested, low, 4000, 0, 12},
                                   {AllocatorAction::free_completed, low, 4000, 0, 12},
                                   {AllocatorAction::free_requested, high, 512, 1, 13}}));
    Phase phase{"forward", {}};
    phase[Statistic::active] = {4608, 512};
    rank.steps.push_back({{phase}, {}, {}});
  }
  return rank;
}

/// The file's text, and what is read of it.
std::string text(std::int64_t base, const std::string& schedule = "lagging") {
  return event_text(trial(schedule), "keep", record(base));
}
EventLog parsed(const std::string& file) {
  return event_logs(parse_trial(file, "here"), "here").at(0);
}
EventLog log(std::int64_t base, const std::string& schedule = "lagging") {
  return parsed(text(base, schedule));
}

EventComparison compared(const EventLog& a, const EventLog& b) { return compare_events({a}, {b}); }

TEST(Events, AreTheSameAtOtherAddressesAndTimes) {
  const auto result = compared(log(1 << 20), log(1 << 30));
  EXPECT_EQ(result.equal, 1);
  EXPECT_EQ(result.events, 11);
  EXPECT_EQ(result.exit_code(), 0);
}

TEST(Events, AnAddressThatIsUsedAgainIsAnotherBlock) {
  const auto steps = log(0x1000).steps;
  EXPECT_EQ(steps.at(1).events.at(0).block, 0);
  EXPECT_EQ(steps.at(2).events.at(0).block, 2);
  EXPECT_EQ(steps.at(2).events.at(2).block, 2);
  EXPECT_EQ(steps.at(0).events.at(0).block, 0);  // segments have their own turns
}

TEST(Events, ABlockOfBeforeHasNoTurn) {
  RankRecord rank;
  rank.events.push_back(step_of({{AllocatorAction::free_requested, 64, 512}}));
  EXPECT_EQ(parsed(event_text(trial("lagging"), "v", rank)).steps.at(0).events.at(0).block, -1);
}

TEST(Events, AreReadAsTheyWereWritten) {
  RankRecord before = record(4096);
  before.unheld = "why";
  const EventLog after = parsed(event_text(trial("lagging"), "keep", before));
  EXPECT_EQ(after.name(), "toy/smoke/r2/shapes/lagging/keep/rank1");
  EXPECT_EQ(after.unheld, "why");
  EXPECT_EQ(after.steps.at(1).events.at(0).op, "aten::mm");
  EXPECT_EQ(after.steps.at(1).phases.at(0)[Statistic::active].peak, 4608);
  EXPECT_EQ(compared(log(4096), after).skipped.size(), 1u);
}

TEST(Events, ARecordWithoutThemIsAnErrorOfOneLine) {
  RankRecord none = record(4096);
  none.events.clear();
  EXPECT_THAT(refusal([&] { parsed(event_text(trial("lagging"), "keep", none)); }),
              HasSubstr("here: has no allocator events: give what"));
}

struct Mutation {
  const char* what;
  std::function<void(EventLog&)> act;
  const char* message;
};

TEST(Events, EachChangeIsFoundWhereItIs) {
  const std::vector<Mutation> all{
      {"bytes", [](EventLog& l) { l.steps[2].events[0].bytes = 4001; },
       "step 1, event 0: alloc of block 2, 4000 bytes, stream 0 (aten::mm) | alloc of block 2, "
       "4001 bytes, stream 0 (aten::mm)"},
      {"stream", [](EventLog& l) { l.steps[1].events[1].stream = 2; }, "step 0, event 1: "},
      {"block", [](EventLog& l) { l.steps[1].events[2].block = 1; }, "step 0, event 2: "},
      {"action", [](EventLog& l) { l.steps[1].events[3].action = AllocatorAction::free_requested; },
       "step 0, event 3: free_completed of block 0, 4000 bytes, stream 0 | free_requested"},
      {"order", [](EventLog& l) { std::swap(l.steps[1].events[2], l.steps[1].events[4]); },
       "step 0, event 2: "},
      {"one less", [](EventLog& l) { l.steps[2].events.pop_back(); },
       "step 1, event 4: free_requested of block 3, 512 bytes, stream 1 | nothing more"},
      {"segment", [](EventLog& l) { l.steps[0].events[0].bytes = 20 << 20; },
       "while it is built, event 0: segment_alloc of segment 0, 2097152 bytes"},
      {"peak", [](EventLog& l) { l.steps[1].phases[0][Statistic::active].peak += 1; },
       "step 0, forward, peak of active: 4608 | 4609 bytes"},
      {"steps", [](EventLog& l) { l.steps.pop_back(); }, "2 steps | 1 steps"},
  };
  for (const auto& mutation : all) {
    EventLog changed = log(4096);
    mutation.act(changed);
    const auto result = compared(log(4096), changed);
    EXPECT_EQ(result.exit_code(), 1) << mutation.what;
    ASSERT_EQ(result.different.size(), 1u) << mutation.what;
    EXPECT_THAT(result.different[0].lines.at(0), HasSubstr(mutation.message)) << mutation.what;
    EXPECT_THAT(result.text("A", "B"), HasSubstr(mutation.message));
  }
}

TEST(Events, OnARealDevicesOwnTimeTheHostsCallsCount) {
  const EventLog clock = log(4096, "calibrated");
  EventLog device = log(4096, "device");
  std::swap(device.steps[1].events[3], device.steps[1].events[4]);  // the free completes later
  device.steps[1].phases[0][Statistic::active].peak += 512;
  EXPECT_EQ(compared(clock, device).exit_code(), 0);
  device.steps[1].events[0].bytes = 1;
  EXPECT_THAT(compared(clock, device).different.at(0).lines,
              ElementsAre(HasSubstr("event 0 of the host's")));
  // On the virtual clock alone nothing is left to chance.
  EventLog other = clock;
  std::swap(other.steps[1].events[3], other.steps[1].events[4]);
  EXPECT_EQ(compared(clock, other).exit_code(), 1);
}

TEST(Events, WhatWasNotComparedDoesNotPass) {
  EventLog unheld = log(4096);
  unheld.unheld = "the host took too long";
  auto result = compared(log(4096), unheld);
  EXPECT_EQ(result.exit_code(), 4);
  EXPECT_THAT(result.text("A", "B"), HasSubstr("the host took too long"));
  EventLog other = log(4096);
  other.params = "n=8 steps=2 seed=0";
  result = compared(log(4096), other);
  EXPECT_EQ(result.exit_code(), 4);
  EXPECT_EQ(result.alone.size(), 2u);
  EXPECT_EQ(compared(log(4096, "instant"), log(4096, "lagging")).exit_code(), 4);
  EXPECT_EQ(compare_events({}, {}).exit_code(), 4);
}

TEST(Measured, HoldsTheSameEventsWithoutTheOperators) {
  const ScratchFolder scratch;
  const std::filesystem::path folder = scratch / "run", path = folder / "measured.json";
  RunRecord run;
  run.device_kind = "cuda";
  std::filesystem::create_directories(folder / "allocator");
  for (const char* schedule : {"lagging", "instant"})
    std::ofstream(folder / "allocator" / (std::string(schedule) + ".json")) << text(4096, schedule);
  std::ofstream(path) << measured_json(run, folder);
  const auto logs = read_events(path);
  EXPECT_EQ(compare_events(read_events(folder), logs).equal, 2);
  ASSERT_EQ(logs.size(), 2u);
  EXPECT_EQ(compare_events(logs, {log(1 << 25), log(1 << 25, "instant")}).equal, 2);
  EXPECT_EQ(logs[0].steps.at(1).events.at(0).op, "");
}

}  // namespace
}  // namespace tidemark
