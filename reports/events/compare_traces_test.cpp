// Two snapshots' traces compared with each other.
#include "reports/events/compare_traces.h"

#include <gmock/gmock.h>

#include "reports/testing/refusal.h"

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
    SnapshotSegment segment{.address = address, .total_size = 20 * kMiB, .stream = stream};
    segment.blocks = {{address, 20 * kMiB, 0, BlockState::inactive}};
    s.segments.push_back(segment);
  }
  s.traces = {{{Action::alloc, one, 2 * kMiB, 0, stream, 0, 1},
               {Action::segment_alloc, two, 20 * kMiB, 0, stream, 0, 1},
               {Action::alloc, two, 3 * kMiB, 0, stream, 0, 1},
               {Action::free_requested, one, 2 * kMiB, 0, stream},
               {Action::free_completed, one, 2 * kMiB, 0, stream},
               {Action::snapshot}}};
  return s;
}

TraceComparison compared(const Snapshot& a, const Snapshot& b) {
  return compare_traces(a, "a", b, "b");
}

TEST(CompareTraces, AddressesAndStreamHandlesDoNotMatterTheirOrderDoes) {
  const auto same = compared(sample(0, 40 * kMiB, 0), sample(100 * kMiB, 200 * kMiB, 7));
  EXPECT_EQ(0, same.exit_code()) << same.text("a", "b");
  EXPECT_THAT(same.text("a", "b"), HasSubstr("events: all 5 equal in action, size and stream\n"));
  EXPECT_EQ(2u, same.same_places);
  EXPECT_TRUE(same.same_segments);
  const auto turned = compared(sample(0, 40 * kMiB, 0), sample(200 * kMiB, 100 * kMiB, 7));
  EXPECT_EQ(0, turned.exit_code());
  EXPECT_EQ(0u, turned.same_places) << "each block is in the other segment";
  EXPECT_THAT(turned.text("a", "b"), HasSubstr("places: 0 of 2 allocations"));
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
