// Recordings as facts, and the segments of a snapshot before its trace.
#include "harness/memory/recording.h"

#include <gmock/gmock.h>

#include "harness/memory/rewind.h"
#include "harness/record/gzip.h"
#include "harness/testing/refusal.h"

namespace tidemark {
namespace {

using testing::HasSubstr;
constexpr std::int64_t kMiB = 1 << 20;

/// A segment of 20 MiB in which 8 were freed and 4 allocated, and one of 2 MiB made for a block.
const std::string kText = R"({"schema":"tidemark/recording","actions":["alloc","free_completed",
  "free_requested","segment_alloc"],"events":{"action":[2,1,0,3,0],"size":[8388000,8388000,4194304,
  2097152,512],"stream":[0,0,0,0,0],"address":[0,0,0,20971520,20971520]},"segments_at_end":[
  {"address":0,"size":20971520,"type":"large","stream":0,"blocks":[[4194304,"active_allocated",
  4194304],[16777216,"inactive",0]]},{"address":20971520,"size":2097152,"type":"small","stream":0,
  "blocks":[[512,"active_allocated",512],[2096640,"inactive",0]]}]})";

std::string without(const std::string& part, const std::string& instead) {
  std::string text = kText;
  return text.replace(text.find(part), part.size(), instead);
}

std::string read_error(const std::string& bytes) {
  return refusal<SnapshotError>([&] { parse_snapshot(bytes, "f"); });
}

std::vector<Segment> segments_before(const Snapshot& snapshot) {
  return memory_before(snapshot, traced_device(snapshot)).segments;
}

TEST(Recording, IsReadAsASnapshotPackedOrNot) {
  for (const std::string& bytes : {kText, gzip(kText)}) {
    const Snapshot snapshot = parse_snapshot(bytes, "f");
    ASSERT_EQ(2u, snapshot.segments.size());
    ASSERT_EQ(5u, snapshot.traces[0].size());
    EXPECT_EQ(AllocatorAction::free_requested, snapshot.traces[0][0].action);
    EXPECT_EQ(20 * kMiB, snapshot.traces[0][3].address);
    EXPECT_EQ(4 * kMiB, snapshot.segments[0].blocks[1].address);
  }
}

TEST(Recording, WrongInputIsAnErrorOfOneLine) {
  EXPECT_THAT(read_error(gzip(kText).substr(0, 100)), HasSubstr("f: is a damaged or cut off gzip"));
  EXPECT_THAT(read_error(kText.substr(0, kText.size() - 3)), HasSubstr("is not JSON, or cut off"));
  EXPECT_THAT(read_error(without("[2,1,0,3,0]", "[2,1,0,4,0]")), HasSubstr("there is no action 4"));
  EXPECT_THAT(read_error(without("2097152,512]", "2097152]")), HasSubstr("has not 5 values"));
  EXPECT_THAT(read_error(without("[16777216,", "[16777217,")), HasSubstr("its blocks sum to"));
  EXPECT_THAT(read_error(without("\"alloc\"", "\"aloc\"")), HasSubstr("'aloc' is not an action"));
  EXPECT_THAT(read_error(without("[8388000,", "[-1,")), HasSubstr("out of range"));
}

TEST(Rewind, GivesTheSegmentsBeforeTheTrace) {
  const auto before = segments_before(parse_snapshot(kText, "f"));
  ASSERT_EQ(1u, before.size()) << "the second one is made in the trace";
  ASSERT_EQ(2u, before[0].blocks.size());
  EXPECT_EQ(8388096, before[0].blocks[0].size) << "the block that was freed, in units of 512";
  EXPECT_EQ(BlockState::allocated, before[0].blocks[0].state);
  EXPECT_EQ(20 * kMiB - 8388096, before[0].blocks[1].size);
  EXPECT_EQ(BlockState::inactive, before[0].blocks[1].state);
}

TEST(Rewind, ARestThatIsNoBlockBelongsToTheBlock) {
  // 19.5 MiB of 20: the allocator splits no rest of at most 1 MiB off a large block.
  Snapshot snapshot;
  snapshot.segments = {{.address = 0, .total_size = 20 * kMiB}};
  snapshot.segments[0].blocks = {{0, 20 * kMiB, 0, BlockState::inactive}};
  snapshot.traces = {{{AllocatorAction::free_requested, 0, 20 * kMiB - kMiB / 2},
                      {AllocatorAction::free_completed, 0, 20 * kMiB - kMiB / 2}}};
  EXPECT_EQ(20 * kMiB, segments_before(snapshot)[0].blocks[0].size);
  snapshot.traces[0][0].size = snapshot.traces[0][1].size = 19 * kMiB - 512;
  EXPECT_EQ(19 * kMiB - 512, segments_before(snapshot)[0].blocks[0].size);
}

TEST(Rewind, FollowsWhatAnExpandableSegmentMaps) {
  // 20 MiB hold a block of 18 that was unmapped behind it and mapped again; before that 2 MiB of
  // small blocks elsewhere were unmapped.
  Snapshot snapshot;
  snapshot.segments = {{.address = 0, .total_size = 40 * kMiB, .expandable = true}};
  snapshot.segments[0].blocks = {{0, 18 * kMiB, 18 * kMiB, BlockState::allocated},
                                 {18 * kMiB, 22 * kMiB, 0, BlockState::inactive}};
  snapshot.traces = {{{AllocatorAction::free_completed, 100 * kMiB, 512},
                      {AllocatorAction::segment_unmap, 100 * kMiB, 2 * kMiB},
                      {AllocatorAction::segment_unmap, 20 * kMiB, 20 * kMiB},
                      {AllocatorAction::segment_map, 20 * kMiB, 20 * kMiB}}};
  const MemoryBefore before = memory_before(snapshot, 0);
  ASSERT_EQ(2u, before.segments.size());
  EXPECT_EQ(40 * kMiB, before.segments[0].total_size);
  EXPECT_EQ(22 * kMiB, before.segments[0].blocks[1].size) << "one free block";
  EXPECT_EQ("small", before.segments[1].type);
  EXPECT_EQ(BlockState::allocated, before.segments[1].blocks[0].state);
  ASSERT_EQ(3u, before.homes.size());
  EXPECT_FALSE(before.homes.at(1).known) << "nothing is left of it";
  EXPECT_TRUE(before.homes.at(2).known) << "beside memory that stays mapped";
  EXPECT_TRUE(before.homes.at(3).known && before.homes.at(3).expandable);
  snapshot.segments[0].pool = {0, 1};
  EXPECT_THAT(refusal<SnapshotError>([&] { memory_before(snapshot, 0); }),
              HasSubstr("nothing says whose it was: record from the beginning"));
  snapshot.traces[0].back().address = 0;
  EXPECT_THAT(refusal<SnapshotError>([&] { memory_before(snapshot, 0); }),
              HasSubstr("maps memory that is not there, or not free, afterwards"));
}

TEST(Rewind, RefusesWhatItCannotFollow) {
  const Snapshot good = parse_snapshot(kText, "f");
  const auto with = [&](auto change) {
    Snapshot snapshot = good;
    change(snapshot);
    return refusal<SnapshotError>([&] { segments_before(snapshot); });
  };
  EXPECT_THAT(with([](Snapshot& s) { s.traces.clear(); }), HasSubstr("has no trace: record with"));
  EXPECT_THAT(with([](Snapshot& s) { s.traces.push_back(s.traces[0]); }),
              HasSubstr("has the traces of devices 0 and 1: choose one with --device"));
  EXPECT_THAT(with([](Snapshot& s) { s.segments.pop_back(); }),
              HasSubstr("event 4 of the trace (alloc of 512 bytes) is in no segment"));
  EXPECT_THAT(
      with([](Snapshot& s) { s.traces[0].pop_back(); }),
      HasSubstr("event 3 of the trace (segment_alloc of 2097152 bytes) allocates a segment"));
  EXPECT_THAT(with([](Snapshot& s) { s.traces[0][2].address = 512; }),
              HasSubstr("allocates a block that is not there afterwards"));
  EXPECT_THAT(with([](Snapshot& s) { s.traces[0][1].address = 20 * kMiB; }),
              HasSubstr("is in no segment"));
}

}  // namespace
}  // namespace tidemark
