// Snapshots from anywhere: what was written is read back in every protocol, and whatever was done
// to a file is either still a snapshot or one line that says what is wrong.
#include "harness/memory/analysis.h"
#include "harness/memory/snapshot.h"
#include "harness/testing/property.h"
#include "reports/snapshot/render.h"

namespace tidemark {
namespace {

using testing::accepts;
using testing::damaged;
using testing::for_all;

std::int64_t bytes() { return *rc::gen::inRange<std::int64_t>(0, std::int64_t{1} << 40); }

/// With those at which a pickle changes its opcode, or needs a byte for the sign.
std::int64_t integer() {
  return *rc::gen::oneOf(
      rc::gen::element<std::int64_t>(0, 127, 128, 255, 256, 65535, 65536, -1, -128, -129, INT32_MAX,
                                     INT32_MIN, INT32_MAX + 1LL, INT64_MAX, INT64_MIN),
      rc::gen::arbitrary<std::int64_t>());
}

Snapshot any_snapshot() {
  Snapshot snapshot;
  const auto text = [] {
    return *rc::gen::container<std::string>(rc::gen::inRange<char>(32, 127));
  };
  snapshot.frames = {{text(), text(), *rc::gen::inRange<std::int64_t>(0, 100000)}};
  snapshot.stacks.push_back({0});
  std::int64_t address = 1 << 21;
  for (int i = *rc::gen::inRange(0, 4); i > 0; --i) {
    Segment segment;
    segment.address = address;
    segment.stream = *rc::gen::inRange<std::int64_t>(0, 1 << 30);
    segment.type = *rc::gen::element<std::string>("large", "small");
    for (int j = *rc::gen::inRange(1, 5); j > 0; --j) {
      MemoryBlock block;
      block.address = address;
      block.size = 512 + 512 * *rc::gen::inRange<std::int64_t>(0, 1 << 20);
      block.state =
          *rc::gen::element(BlockState::allocated, BlockState::pending_free, BlockState::inactive);
      block.requested = *rc::gen::inRange<std::int64_t>(1, block.size + 1);
      block.stack = *rc::gen::element(0U, 1U);
      address += block.size;
      segment.blocks.push_back(block);
    }
    segment.total_size = address - segment.address;
    address += 1 << 21;
    snapshot.segments.push_back(segment);
  }
  snapshot.traces.resize(1);
  for (int i = *rc::gen::inRange(0, 6); i > 0; --i) {
    AllocatorEvent event;
    event.action = *rc::gen::element(AllocatorAction::alloc, AllocatorAction::free_requested,
                                     AllocatorAction::free_completed,
                                     AllocatorAction::segment_alloc, AllocatorAction::oom);
    event.size = bytes();
    event.address = integer();
    event.stream = integer();
    event.time = ns_of(*rc::gen::inRange<std::int64_t>(0, 1 << 30));
    snapshot.traces[0].push_back(event);
  }
  return snapshot;
}

TEST(SnapshotProperties, WhateverIsWrittenIsReadBack) {
  for_all(1500, [] {
    const Snapshot snapshot = any_snapshot();
    const std::string text = snapshot_json(snapshot);
    for (const int protocol : {2, 3, 4}) {
      const Snapshot back = parse_snapshot(pickle(snapshot, protocol), "x");
      RC_ASSERT(snapshot_json(back) == text);
      RC_ASSERT(pickle(back, protocol) == pickle(snapshot, protocol));
    }
    RC_ASSERT(snapshot_json(parse_snapshot(text, "x")) == text);
    std::int64_t reserved = 0;
    for (const auto& segment : snapshot.segments) reserved += segment.total_size;
    std::int64_t analysed_reserved = 0;
    for (const auto& device : analyse(snapshot)) analysed_reserved += device.fragmentation.reserved;
    RC_ASSERT(analysed_reserved == reserved);
  });
}

TEST(SnapshotProperties, ADamagedFileIsASnapshotOrAnErrorOfOneLine) {
  Snapshot snapshot;
  snapshot.frames = {{"step", "train.py", 12}};
  snapshot.stacks.push_back({0});
  snapshot.segments = {{.address = 1 << 21, .total_size = 4096, .stream = 7}};
  snapshot.segments[0].blocks = {{1 << 21, 1024, 1000, BlockState::allocated, 1},
                                 {(1 << 21) + 1024, 3072, 0, BlockState::inactive, 0}};
  snapshot.traces = {{{AllocatorAction::alloc, 1 << 21, 1000, 7, 5000, 1},
                      {AllocatorAction::oom, 5, 99, 7, 6000, 0}}};
  const std::vector<std::string> files{pickle(snapshot, 2), pickle(snapshot, 3),
                                       pickle(snapshot, 4), snapshot_json(snapshot)};
  int refused = 0;
  for_all(6000, [&] {
    const std::string file = *damaged(*rc::gen::elementOf(files));
    refused += !accepts<SnapshotError>([&] {
      const Snapshot read = parse_snapshot(file, "dump.pickle");
      snapshot_text({"dump.pickle", read}, 5);
      perfetto(read);
    });
  });
  EXPECT_GT(refused, 2000);
}

TEST(SnapshotProperties, RandomBytesAreASnapshotOrAnErrorOfOneLine) {
  for_all(4000, [] {
    const auto bytes = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
    for (const char* start : {"", "\x80\x04", "\x80\x02}", "{"})
      accepts<SnapshotError>([&] { parse_snapshot(start + bytes, "dump.pickle"); });
  });
}

}  // namespace
}  // namespace tidemark
