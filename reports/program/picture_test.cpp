// Pictures of a program's memory: their sums are those of the trace, also where moments are left
// out.
#include "harness/memory/picture.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>

#include "harness/memory/beyond.h"
#include "harness/record/file.h"
#include "harness/record/gzip.h"
#include "harness/record/json.h"
#include "reports/picture_json.h"
#include "reports/program/page.h"
#include "reports/program/picture_data.h"
#include "reports/program/rank_peaks.h"
#include "reports/program/samples.h"

namespace tidemark {
namespace {

struct Drawn {
  Snapshot snapshot;
  DeviceSummary device;
  MemoryPicture picture;
};

Drawn drawn(Snapshot snapshot) {
  Drawn out{std::move(snapshot), {}, {}};
  out.device = analyse(out.snapshot).at(0);
  out.picture = picture_of(out.snapshot, out.device);
  return out;
}

TEST(Picture, SumsAreThoseOfTheTrace) {
  const Drawn d = drawn(training(3, 2, 4));
  const std::vector<std::int64_t> active = active_of(d.picture);
  ASSERT_EQ(active.size(), d.device.curve.size() + 1);
  for (std::size_t i = 0; i < d.device.curve.size(); ++i) {
    ASSERT_EQ(active[i + 1], d.device.curve[i].active) << i;
    ASSERT_EQ(d.picture.reserved[i + 1], d.device.curve[i].reserved) << i;
  }
  EXPECT_EQ(active[d.picture.peak], d.device.peak.active);
}

TEST(Picture, TheBlocksAtThePeakAreItsParts) {
  const Drawn d = drawn(training(3, 2, 4));
  std::map<MemoryKind, std::int64_t> by_kind, expected;
  for (const auto& block : d.picture.blocks)
    if (block.from <= d.picture.peak && d.picture.peak < block.until)
      by_kind[d.picture.places[block.place].kind] += block.bytes;
  for (const Part& part : d.device.parts) expected[part.kind] += part.bytes;
  EXPECT_EQ(by_kind, expected);
  EXPECT_GT(by_kind.size(), 3u);
  EXPECT_EQ(d.picture.places[d.picture.blocks.back().place].module.find('*'), std::string::npos);
}

TEST(Picture, ABlockHasTheStackOfItsAllocation) {
  const Drawn d = drawn(training(3, 2, 4));
  const CallTree& calls = d.picture.calls;
  std::size_t block = 0, longest = 0;
  for (const AllocatorEvent& event : d.snapshot.traces[0]) {
    if (event.action != AllocatorAction::alloc) continue;
    ASSERT_EQ(d.picture.blocks[block].address, event.address);
    std::vector<StackFrame> frames, expected;
    for (const std::uint32_t frame : calls.stack(d.picture.blocks[block].call))
      frames.push_back(calls.frames()[frame]);
    for (const std::uint32_t frame : d.snapshot.stacks[event.stack])
      expected.insert(expected.begin(), d.snapshot.frames[frame]);
    ASSERT_EQ(frames, expected) << block;
    longest = std::max(longest, frames.size());
    ++block;
  }
  EXPECT_EQ(block, d.picture.blocks.size());
  EXPECT_EQ(longest, 4u);
  EXPECT_LT(calls.calls().size(), 30u);  // shared, not one for each block
}

// A ring of events has lost its first ones: what is there before has its sum, its segments, and the
// stacks of the blocks that are there at the end.
TEST(Picture, WhatWasThereBeforeTheTraceIsInThePicture) {
  std::mt19937 random(65);
  for (int round = 0; round < 24; ++round) {
    const bool mapped = round % 3 == 2;
    const Snapshot all = training(2 + round % 4, 2, 5, "", mapped);
    const Drawn whole = drawn(all);
    const std::vector<std::int64_t> active = active_of(whole.picture);
    const std::size_t lost = random() % (all.traces[0].size() + 1);
    const Drawn d = drawn(of_ring(all, lost));
    ASSERT_EQ(d.picture.events.size(), active.size() - lost) << round;
    const std::vector<std::int64_t> levels = active_of(d.picture);
    std::int64_t before = 0;
    for (std::size_t at = 0; at < levels.size(); ++at) {
      ASSERT_EQ(levels[at], active[at + lost]) << at << " of " << lost;
      ASSERT_EQ(d.picture.reserved[at], whole.picture.reserved[at + lost]) << at;
      std::int64_t sum = 0;
      for (const SegmentLife& one : d.picture.segments)
        if (one.from <= at && at < one.until) sum += one.bytes;
      // What was mapped in private pools before, and is no longer, has no pool that is known.
      if (!mapped || !d.picture.segments.empty()) ASSERT_EQ(sum, d.picture.reserved[at]) << at;
    }
    for (const MemoryPicture::Block& block : d.picture.blocks) {
      const MemoryPicture::Place& place = d.picture.places[block.place];
      ASSERT_EQ(place.kind == MemoryKind::before, block.from == 0);
      if (block.from > 0) continue;
      before += block.bytes;
      ASSERT_EQ(place.site.empty(), block.until < levels.size()) << place.site;
      ASSERT_EQ(d.picture.calls.stack(block.call).empty(), block.until < levels.size());
      const auto same = std::ranges::find_if(whole.picture.blocks, [&](const auto& one) {
        return one.address == block.address && one.from <= lost && lost < one.until;
      });
      ASSERT_NE(same, whole.picture.blocks.end());
      ASSERT_EQ(same->bytes, block.bytes);
      ASSERT_EQ(same->until - lost, block.until);
      if (place.site.empty()) continue;
      ASSERT_EQ(whole.picture.places[same->place].site, place.site);
    }
    EXPECT_EQ(before, active[lost]);
  }
}

TEST(Picture, AFreeThatIsPendingWhenTheTraceBeginsWaitsFromThere) {
  for (const bool ends : {false, true}) {
    Snapshot s;
    Segment one;
    one.address = 4096, one.total_size = 2 << 20;
    s.traces.emplace_back();
    const auto event = [&](AllocatorAction action, std::int64_t address, Bytes bytes) {
      AllocatorEvent made;
      made.action = action, made.address = address, made.size = bytes;
      s.traces[0].push_back(made);
    };
    event(AllocatorAction::alloc, 8192, 1000);
    if (ends)
      event(AllocatorAction::free_completed, 4096, 3000);
    else
      one.blocks.push_back({4096, 3072, 3000, BlockState::pending_free});
    if (ends) one.blocks.push_back({4096, 4096});
    if (!ends) one.blocks.push_back({7168, 1024});
    one.blocks.push_back({8192, 1024, 1000, BlockState::allocated});
    one.blocks.push_back({9216, (2 << 20) - 5120});
    s.segments = {one};
    const Drawn d = drawn(s);
    ASSERT_EQ(d.picture.blocks.size(), 2u);
    const MemoryPicture::Block& block = d.picture.blocks[0];
    EXPECT_EQ(block.waits, 0u) << ends;
    EXPECT_EQ(block.until, 2u) << "by the second event, or at the end of both moments";
    EXPECT_EQ(block.bytes, 3000);
    EXPECT_EQ(block.rest, 72);
  }
}

TEST(Picture, StacksBeyondThePagesRoomAreLeftOutSmallestBlocksFirst) {
  const Drawn d = drawn(training(3, 2, 4));
  const auto largest = std::ranges::max_element(d.picture.blocks, {}, &MemoryPicture::Block::bytes);
  PageCalls calls(6);
  const std::vector<std::int64_t> known = calls.take(d.picture);
  EXPECT_GT(known[largest->call], 0);
  EXPECT_THAT(known, testing::Contains(-1));
  EXPECT_LE(calls.json()["frame"].size(), 5u);
}

TEST(Picture, SegmentsSumToReservedAtEveryMoment) {
  for (const std::size_t most : {64u, 100'000u}) {
    const MemoryPicture picture = thinned(drawn(training(4, 3, 6)).picture, most);
    ASSERT_GT(picture.segments.size(), 5u);
    for (std::size_t at = 0; at < picture.reserved.size(); ++at) {
      std::int64_t sum = 0;
      for (const SegmentLife& one : picture.segments)
        if (one.from <= at && at < one.until) sum += one.bytes;
      ASSERT_EQ(sum, picture.reserved[at]) << at << " of " << most;
    }
  }
}

TEST(SegmentLives, MappedMemoryIsCutWhereItIsUnmapped) {
  std::vector<Segment> at_end(1);
  at_end[0].address = 100, at_end[0].total_size = 20, at_end[0].pool = {0, 7};
  SegmentLives lives(0, at_end);
  const auto apply = [&](AllocatorAction action, std::int64_t address, std::int64_t bytes,
                         std::size_t moment) {
    AllocatorEvent event;
    event.action = action, event.address = address, event.size = bytes;
    lives.apply(event, moment);
  };
  apply(AllocatorAction::segment_map, 100, 40, 1);
  apply(AllocatorAction::segment_map, 140, 60, 2);
  apply(AllocatorAction::segment_unmap, 120, 50, 3);
  apply(AllocatorAction::segment_free, 999, 1, 4);
  std::vector<std::array<std::int64_t, 4>> out;
  for (const SegmentLife& one : lives.take(9)) {
    EXPECT_EQ(one.pool, (one.until < 9        ? PoolId{-1, -1}
                         : one.address == 100 ? PoolId{0, 7}
                                              : PoolId{}));
    out.push_back({one.address, one.bytes, static_cast<std::int64_t>(one.from),
                   static_cast<std::int64_t>(one.until)});
  }
  EXPECT_THAT(out, testing::UnorderedElementsAre(
                       testing::ElementsAre(100, 40, 1, 3), testing::ElementsAre(140, 60, 2, 3),
                       testing::ElementsAre(100, 20, 3, 9), testing::ElementsAre(170, 30, 3, 9)));
}

TEST(Picture, FewerMomentsKeepThePeakAndTheirSums) {
  const Drawn d = drawn(training(4, 3, 6));
  const std::vector<std::int64_t> all = active_of(d.picture);
  for (const std::size_t most : {3u, 10u, 64u, 100'000u}) {
    const MemoryPicture few = thinned(d.picture, most);
    EXPECT_LE(few.events.size(), most);
    const std::vector<std::int64_t> active = active_of(few);
    for (std::size_t i = 0; i < few.events.size(); ++i)
      ASSERT_EQ(active[i], all[static_cast<std::size_t>(few.events[i])]) << most << ' ' << i;
    EXPECT_EQ(active[few.peak], d.device.peak.active) << most;
    EXPECT_EQ(std::ranges::max(active), d.device.peak.active) << most;
  }
}

TEST(Picture, APhaseIsTheShortestAtAMoment) {
  const Drawn d = drawn(training(3, 2, 4));
  const auto* phase = phase_at(d.picture, d.picture.peak);
  ASSERT_NE(phase, nullptr);
  EXPECT_EQ(phase->name, "backward");
  EXPECT_EQ(phase->step, 2);
}

TEST(Picture, ATraceThatContradictsTheBlocksAtItsEndHasNone) {
  Snapshot snapshot = training(3, 2, 4);
  const auto freed = std::ranges::find(snapshot.traces[0], AllocatorAction::free_completed,
                                       &AllocatorEvent::action);
  freed->size += 512;
  EXPECT_TRUE(drawn(std::move(snapshot)).picture.events.empty());
}

TEST(Picture, BeyondTheRefusedBlockStandsTheRunWithRoom) {
  const Snapshot room = training(4, 3, 6);
  const auto allocations =
      std::ranges::count(room.traces[0], AllocatorAction::alloc, &AllocatorEvent::action);
  std::mt19937 random(65);
  for (int round = 0; round < 40; ++round) {
    const std::int64_t at = std::uniform_int_distribution<std::int64_t>(1, allocations)(random);
    const Drawn full = drawn(training(4, 3, 6, "", false, at)), all = drawn(room);
    ASSERT_TRUE(full.device.oom) << at;
    const auto picture = beyond(full.snapshot, full.device, all.snapshot, all.picture);
    ASSERT_TRUE(picture) << at;
    const std::vector<std::int64_t> active = active_of(*picture), was = active_of(full.picture);
    EXPECT_EQ(picture->refused_bytes, full.device.oom->wanted) << at;
    EXPECT_EQ(active[picture->refused] - active[picture->refused - 1], picture->refused_bytes)
        << at;
    EXPECT_EQ(active[picture->refused - 1], full.picture.events.empty() ? 0 : was.back()) << at;
    const auto* phase = phase_at(*picture, picture->refused);
    const std::size_t last = picture->events.size() - 1;
    for (const MemoryPicture::Phase& one : all.picture.phases)
      if (phase != nullptr && one.step == phase->step)
        EXPECT_LE(one.to, last) << "to the end of that step";
    if (phase != nullptr) EXPECT_EQ(phase_at(*picture, last)->step, phase->step);
    EXPECT_EQ(active[picture->peak], std::ranges::max(active)) << at;
    for (const std::size_t most : {3u, 4u, 50u}) {
      const MemoryPicture few = thinned(*picture, most);
      EXPECT_LE(few.events.size(), std::max<std::size_t>(most, 4));
      EXPECT_EQ(few.events[few.refused], picture->events[picture->refused]) << most;
    }
    Snapshot other = room;  // the same but for one block before
    std::int64_t seen = 0;
    for (AllocatorEvent& event : other.traces[0])
      if (event.action == AllocatorAction::alloc && ++seen == 1 + at / 2) event.size += 4096;
    EXPECT_FALSE(beyond(full.snapshot, full.device, other, all.picture)) << at;
  }
}

TEST(Picture, DataKeepToTheirBudget) {
  const PicturePlace place{"h100-80g", Bytes{80} << 30, "report.html"};
  HighestPeak peak;
  for (const int layers : {3, 5, 5, 4}) {
    peak.pictures.push_back(drawn(training(layers, 3, 8)).picture);
    peak.pictures.back().where = "rank" + std::to_string(peak.pictures.size() - 1);
  }
  const auto all = picture_data({peak}, place);
  ASSERT_EQ(all["pictures"].size(), 3u);  // two are equal
  EXPECT_EQ(all["pictures"][0]["names"], nlohmann::json({"rank 1", "rank 2"}));
  EXPECT_TRUE(all["pictures"][0]["events"].is_null());
  const auto few = picture_data({peak}, place, {.packed = 1000});
  EXPECT_LT(few["pictures"][0]["moments"], all["pictures"][0]["moments"]);
  EXPECT_EQ(few["pictures"][0]["in_all"], all["pictures"][0]["in_all"]);
  EXPECT_TRUE(picture_data({HighestPeak()}, place).is_null());
}

// What a program without an optimizer does twice may be one step or two.
TEST(Memory, AStepIsSaidWhereStepsAreToldApart) {
  const auto steps = [](Snapshot s) {
    std::set<std::int64_t> out;
    for (const MemoryPicture::Phase& one : drawn(std::move(s)).picture.phases) out.insert(one.step);
    return out;
  };
  Snapshot two = training(3, 2, 4);
  EXPECT_EQ(steps(two), (std::set<std::int64_t>{1, 2}));
  std::erase_if(two.phases, [](const ProgramPhase& one) { return one.name == "optimizer"; });
  EXPECT_EQ(steps(two), (std::set<std::int64_t>{1, 2})) << "it stepped: its number says so";
  for (ProgramPhase& one : two.phases) one.step = 1;
  EXPECT_EQ(steps(two), std::set<std::int64_t>{0}) << "two backwards";
  Snapshot one = two;
  std::erase_if(one.phases, [](const ProgramPhase& phase) { return phase.name == "backward"; });
  EXPECT_EQ(steps(one), std::set<std::int64_t>{0}) << "two forwards";
  one = two;
  one.phases.resize(2);
  EXPECT_EQ(steps(one), std::set<std::int64_t>{1}) << "out of memory in the first step";
  one.repeats.push_back({1, 1, 3});
  EXPECT_EQ(steps(one), std::set<std::int64_t>{0}) << "they came again";
}

TEST(RankPeaks, PhasesAreToldApartByStepsWhereTheseAreFew) {
  const Drawn a = drawn(training(3, 2, 4)), b = drawn(training(4, 3, 4));
  const std::vector<const MemoryPicture*> both{&a.picture, &b.picture};
  const RankPeaks steps = rank_peaks(both, 9);
  ASSERT_EQ(steps.phases.size(), 9u);
  EXPECT_EQ(steps.phases[4], (std::pair<std::string, std::int64_t>("backward", 2)));
  EXPECT_EQ(steps.peaks[0][8], std::nullopt);  // the first has no third step
  for (std::size_t i = 0; i < 9; ++i)
    EXPECT_EQ(steps.peaks[1][i], b.device.phases.at(i).peak.active) << i;
  const RankPeaks names = rank_peaks(both, 8);
  ASSERT_EQ(names.phases.size(), 3u);
  EXPECT_EQ(names.phases[1], (std::pair<std::string, std::int64_t>("backward", 0)));
  EXPECT_EQ(names.peaks[1][1],
            std::max({b.device.phases.at(1).peak.active, b.device.phases.at(4).peak.active,
                      b.device.phases.at(7).peak.active}));
  EXPECT_EQ(rank_peaks(both, 2).phases.size(), 2u);
}

TEST(Memory, ThePageIsWrittenAgainFromTheHistories) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "page_again";
  fs::remove_all(folder);
  write_programs(folder, false);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path page = entry.path() / "report.html";
    const std::string before = read_bytes(page);
    fs::remove(page);
    rerender_programs(entry.path(), read_report(entry.path()));
    EXPECT_EQ(read_bytes(page), before) << entry.path();
  }
}

}  // namespace
}  // namespace tidemark
