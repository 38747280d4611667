// Two snapshots' traces compared with each other.
#include "reports/events/compare_traces.h"

#include <gmock/gmock.h>

#include "harness/testing/refusal.h"

namespace tidemark {
namespace {

using testing::HasSubstr;
constexpr std::int64_t kMiB = 1 << 20;

/// Two segments at these addresses; a block in each, the first one freed.
Snapshot sample(std::int64_t one, std::int64_t two, std::int64_t stream) {
  Snapshot s;
  s.frames = {{"at::empty", "/x/libtorch.so", 0},
              {"_call_impl", "/x/torch/nn/module.py", 3},
              {"forward", "model.py", 12}};
  s.stacks = {{}, {0, 1, 2}};
  for (const std::int64_t address : {one, two}) {
    Segment segment{.address = address, .total_size = 20 * kMiB, .stream = stream};
    segment.blocks = {{address, 20 * kMiB, 0, BlockState::inactive}};
    s.segments.push_back(segment);
  }
  s.traces = {{{AllocatorAction::alloc, one, 2 * kMiB, stream, 0, 1},
               {AllocatorAction::segment_alloc, two, 20 * kMiB, stream, 0, 1},
               {AllocatorAction::alloc, two, 3 * kMiB, stream, 0, 1},
               {AllocatorAction::free_requested, one, 2 * kMiB, stream},
               {AllocatorAction::free_completed, one, 2 * kMiB, stream},
               {AllocatorAction::snapshot}}};
  return s;
}

TraceComparison compared(const Snapshot& a, const Snapshot& b) {
  return compare_traces(a, "a", b, "b");
}

TEST(CompareTraces, AddressesAndStreamHandlesDoNotMatter) {
  const auto same = compared(sample(0, 40 * kMiB, 0), sample(100 * kMiB, 200 * kMiB, 7));
  EXPECT_EQ(0, same.exit_code()) << same.text("a", "b");
  EXPECT_THAT(same.text("a", "b"), HasSubstr("events: all 5 equal in action, size and stream\n"));
  EXPECT_TRUE(same.same_segments);
  const auto turned = compared(sample(0, 40 * kMiB, 0), sample(200 * kMiB, 100 * kMiB, 7));
  EXPECT_EQ(0, turned.exit_code());
  EXPECT_THAT(turned.text("a", "b"), HasSubstr("places: 2 of 2 allocations"));
}

TEST(CompareTraces, ASegmentIsTheSameForTheWholeTrace) {
  const auto with = [](std::int64_t third) {
    Snapshot s = sample(0, 40 * kMiB, 0);
    s.traces[0].insert(s.traces[0].begin() + 3, {AllocatorAction::alloc, third, kMiB});
    return s;
  };
  EXPECT_THAT(compared(with(8 * kMiB), with(48 * kMiB)).text("a", "b"),
              HasSubstr("places: 2 of 3 allocations"))
      << "the same offset in the other segment";
  EXPECT_THAT(compared(with(8 * kMiB), with(10 * kMiB)).text("a", "b"),
              HasSubstr("places: 2 of 3 allocations"))
      << "another offset";
  Snapshot other = with(8 * kMiB);
  other.traces[0][3].size = 5;
  EXPECT_THAT(compared(with(8 * kMiB), other).text("a", "b"),
              HasSubstr("places: 2 of 2 allocations in the same place of the same segment, not "
                        "compared from the difference on"));
}

TEST(CompareTraces, AnAddressThatIsUsedAgainIsAnotherSegment) {
  const auto with = [](std::int64_t again) {
    Snapshot s = sample(0, 40 * kMiB, 0);
    s.traces[0].insert(s.traces[0].begin(), {{AllocatorAction::segment_alloc, again, 2 * kMiB},
                                             {AllocatorAction::alloc, again + 512, 512},
                                             {AllocatorAction::free_completed, again + 512, 512},
                                             {AllocatorAction::segment_free, again, 2 * kMiB}});
    return s;
  };
  EXPECT_THAT(compared(with(40 * kMiB), with(80 * kMiB)).text("a", "b"),
              HasSubstr("places: 3 of 3 allocations"));
}

TEST(CompareTraces, AnExpandableSegmentIsOneHoweverItGrows) {
  const auto with = [](std::int64_t begin, std::int64_t page) {
    Snapshot s;
    for (int i = 0; i < 4; ++i) {
      if (i * 10 * kMiB % page == 0)
        s.traces.resize(1),
            s.traces[0].push_back({AllocatorAction::segment_map, begin + i * 10 * kMiB, page});
      s.traces[0].push_back({AllocatorAction::alloc, begin + i * 10 * kMiB, 10 * kMiB});
    }
    return s;
  };
  const auto grown = compared(with(0, 20 * kMiB), with(50 * kMiB, 40 * kMiB));
  EXPECT_EQ(1, grown.exit_code()) << "in other steps";
  EXPECT_THAT(grown.text("a", "b"), HasSubstr("places: 4 of 4 allocations"));
}

// Autocast lets go of its copies in the order of host pointers.
TEST(CompareTraces, TheSameFreesInAnotherOrderAreNoDifference) {
  const auto with = [](std::vector<int> order) {
    Snapshot s = sample(0, 40 * kMiB, 0);
    auto& trace = s.traces[0];
    trace.clear();
    for (int i = 0; i < 4; ++i)
      trace.push_back({AllocatorAction::alloc, i * 4 * kMiB, (i < 3 ? i + 1 : 2) * kMiB});
    for (const int i : order)
      trace.push_back({AllocatorAction::free_completed, i * 4 * kMiB, (i < 3 ? i + 1 : 2) * kMiB});
    trace.push_back({AllocatorAction::alloc, 0, 512});
    return s;
  };
  const auto turned = compared(with({0, 1, 2}), with({2, 0, 1}));
  EXPECT_EQ(0, turned.exit_code());
  EXPECT_THAT(turned.text("a", "b"),
              HasSubstr("events: all 8 equal in action, size and stream, 3 of them the same frees "
                        "in another order\n"));
  EXPECT_EQ(1, compared(with({0, 1, 2}), with({2, 0, 3})).exit_code())
      << "another block of the same size";
  EXPECT_EQ(1, compared(with({0, 1, 2}), with({2, 0})).exit_code());
  EXPECT_EQ(0u, compared(with({0, 1, 2}), with({0, 1, 2})).turned);
}

TEST(CompareTraces, OfSeveralDevicesOneIsChosen) {
  Snapshot several = sample(0, 40 * kMiB, 0);
  several.traces.push_back(several.traces[0]);
  several.traces[1][0].size = 512;
  const Snapshot one = sample(0, 40 * kMiB, 0);
  EXPECT_EQ(0, compare_traces(several, "a", one, "b", 0).exit_code());
  EXPECT_EQ(1, compare_traces(several, "a", one, "b", 1).exit_code());
  EXPECT_THAT(refusal<SnapshotError>([&] { compared(one, several); }),
              HasSubstr("b: has the traces of devices 0 and 1: choose one with --device"));
}

TEST(CompareTraces, NamesTheFirstEventThatDiffersWithItsFrames) {
  Snapshot other = sample(0, 40 * kMiB, 0);
  other.traces[0][2].size = 4 * kMiB;
  const auto difference = compared(sample(0, 40 * kMiB, 0), other);
  EXPECT_EQ(1, difference.exit_code());
  const std::string text = difference.text("a", "b");
  EXPECT_THAT(text,
              HasSubstr("event 2: alloc of 3145728 bytes, stream 0 | alloc of 4194304 bytes"));
  EXPECT_THAT(text, HasSubstr("  first: forward (model.py:12)\n  second: forward (model.py:12)\n"));
  EXPECT_THAT(text, testing::Not(HasSubstr("torch")));
  EXPECT_THAT(text, testing::Not(HasSubstr("without segments"))) << "the same event";
  other.traces[0].erase(other.traces[0].begin() + 1);
  EXPECT_THAT(
      compared(sample(0, 40 * kMiB, 0), other).text("a", "b"),
      HasSubstr("without segments, event 2: alloc of 3145728 bytes, stream 0 | alloc of 41"));
}

TEST(CompareTraces, TellsSegmentsFromBlocks) {
  Snapshot other = sample(0, 40 * kMiB, 0);
  other.traces[0].erase(other.traces[0].begin() + 1);
  other.segments[1].total_size = 22 * kMiB;
  const auto difference = compared(sample(0, 40 * kMiB, 0), other);
  EXPECT_EQ(1, difference.exit_code());
  const std::string text = difference.text("a", "b");
  EXPECT_THAT(text, HasSubstr("without segments: all events equal\n"));
  EXPECT_THAT(text, HasSubstr("2 of 41943040 bytes | 2 of 44040192 bytes\n"));
}

TEST(CompareTraces, OneThatEndsEarlierIsDifferent) {
  Snapshot other = sample(0, 40 * kMiB, 0);
  other.traces[0].resize(4);
  EXPECT_THAT(compared(sample(0, 40 * kMiB, 0), other).text("a", "b"),
              HasSubstr("event 4: free_completed of 2097152 bytes, stream 0 | nothing more"));
}

TEST(CompareTraces, AnotherStreamIsDifferent) {
  Snapshot a = sample(0, 40 * kMiB, 0), b = a;
  a.traces[0][2].stream = 9;
  EXPECT_EQ(1, compared(a, b).exit_code());
}

TEST(CompareTraces, WithoutATraceItSaysWhichFile) {
  Snapshot none = sample(0, 40 * kMiB, 0);
  none.traces.clear();
  EXPECT_THAT(refusal<SnapshotError>([&] { compared(sample(0, 40 * kMiB, 0), none); }),
              testing::StartsWith("b: has no trace: record with"));
}

}  // namespace
}  // namespace tidemark
