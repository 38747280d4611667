// The requests of a program in a trace, and edits of them.
#include "harness/memory/workload.h"

#include <gmock/gmock.h>

#include <array>
#include <set>

#include "harness/memory/edit.h"
#include "harness/memory/stack_phases.h"
#include "harness/memory/testing/written_trace.h"

namespace tidemark {
namespace {

std::vector<std::string> text_of(const Workload& workload) {
  constexpr std::array kWords{"take", "free", "back", "empty", "refused"};
  std::vector<std::string> out;
  for (const AllocatorRequest& one : workload.requests)
    out.push_back(
        fmt::format("{} {}", kWords[static_cast<std::size_t>(one.what)], one.bytes >> 20));
  return out;
}

TEST(Workload, HasTheProgramsRequestsAlone) {
  // A retry gives 40 MiB back, and torch.cuda.empty_cache() another segment.
  const auto of = [](const std::string& stack) {
    Snapshot s = Trace()
                     .add("segment_alloc", 100, 40, kOutside)
                     .add("alloc", 100, 40, kOutside)
                     .freed(100, 40, kOutside)
                     .add("segment_free", 100, 40, stack)
                     .add("segment_alloc", 0, 100, kOutside)
                     .add("alloc", 0, 100, kOutside)
                     .snapshot(100, {{100, true}});
    return workload_of(s, 0, memory_before(s, 0));
  };
  EXPECT_EQ((std::vector<std::string>{"take 40", "back 40", "take 100"}), text_of(of(kOutside)));
  EXPECT_EQ(1u, of(kOutside).retries);
  EXPECT_EQ((std::vector<std::string>{"take 40", "back 40", "empty 40", "take 100"}),
            text_of(of(kEmpty)));
  // Without stacks: the device has never had more, so it may have been full.
  EXPECT_THROW(of("[]"), SnapshotError);
}

TEST(Workload, KnowsFreesThatOtherStreamsHoldBack) {
  // The block comes back with the next allocation, which waits for it, finds no room and gives a
  // segment back; or later by itself.
  const auto of = [](bool waits) {
    Trace trace;
    trace.add("segment_alloc", 100, 40, kOutside)
        .add("alloc", 100, 40, kOutside)
        .add("segment_alloc", 0, 100, kOutside)
        .add("alloc", 0, 60, kOutside)
        .add("free_requested", 100, 40, kOutside)
        .add("alloc", 60, 20, kOutside)
        .add("free_completed", 100, 40, kOutside);
    if (!waits)
      return trace.add("alloc", 100, 30, kOutside)
          .snapshot(100, {{60, true}, {20, true}, {20, false}});
    trace.add("segment_free", 100, 40, kOutside).add("segment_alloc", 200, 50, kOutside);
    return trace.add("alloc", 200, 50, kOutside)
        .snapshot(100, {{60, true}, {20, true}, {20, false}});
  };
  const auto read = [](const Snapshot& s) {
    MemoryBefore before;
    for (std::size_t i = 0; i < s.traces[0].size(); ++i) before.homes[i] = {};
    return workload_of(s, 0, before);
  };
  const Workload waited = read(of(true)), came = read(of(false));
  EXPECT_EQ(
      (std::vector<std::string>{"take 40", "take 60", "free 40", "take 20", "back 40", "take 50"}),
      text_of(waited));
  EXPECT_EQ(1u, waited.forced);
  EXPECT_EQ(40 << 20, waited.forced_bytes);
  EXPECT_EQ(0u, came.forced);
  EXPECT_EQ("back 40", text_of(came)[4]);
}

TEST(Edits, RecomputeALineInParts) {
  // Two layers of one line, with a block that is freed in the forward, and then the backward.
  const std::string inner =
      Trace::stack({Trace::frame("/x/model.py", 60, "forward"), kCall,
                    Trace::frame("/x/model.py", 88, "forward"), kCall, kTrain});
  Trace trace;
  trace.add("segment_alloc", 0, 200, kOutside);
  for (int layer = 0; layer < 2; ++layer) {
    trace.add("alloc", 40 * layer, 30, kForward).add("alloc", 100, 7, inner).freed(100, 7, inner);
  }
  trace.add("alloc", 110, 2, kBackward).freed(40, 30, kBackward);
  trace.add("alloc", 130, 1, kBackward).freed(130, 1, kBackward);
  trace.add("alloc", 120, 3, kBackward).freed(0, 30, kBackward);
  Snapshot s = trace.snapshot(200, {{110, false}, {2, true}, {8, false}, {3, true}, {77, false}});
  tell_from_stacks(s);
  Workload workload = workload_of(s, 0, memory_before(s, 0));
  const Edited edited = apply(parse_edit("model.py:88 until backward"), s, 0, workload);
  EXPECT_EQ(2u, edited.recomputed);
  EXPECT_EQ((std::vector<std::string>{"take 30", "take 7",  "back 7",  "take 30", "take 7",
                                      "back 7",  "back 30", "back 30", "take 30", "take 7",
                                      "back 7",  "take 2",  "back 30", "take 30", "take 7",
                                      "back 7",  "take 1",  "back 1",  "take 3",  "back 30"}),
            text_of(workload));
  std::set<std::int64_t> alive;
  for (const AllocatorRequest& one : workload.requests) {
    if (one.what == AllocatorRequest::What::take)
      EXPECT_TRUE(alive.insert(one.address).second) << one.address;
    else
      EXPECT_EQ(1u, alive.erase(one.address)) << one.address;
  }
}

TEST(Edits, FreeAfterTheBackwardWhatWasTakenAgain) {
  // The program keeps a block of the line until the optimizer has run; the copy goes with its part.
  const std::string other =
      Trace::stack({Trace::frame("/x/ops.py", 1, "f"), Trace::frame("/x/model.py", 88, "forward"),
                    kCall, kTrain});
  Trace trace;
  trace.add("segment_alloc", 0, 200, kOutside);
  for (int step = 0; step < 2; ++step)
    trace.add("alloc", 0, 30, kForward)
        .add("alloc", 40, 20, other)
        .add("alloc", 100, 2, kBackward)
        .freed(40, 20, kBackward)
        .add("alloc", 120, 4, kTemporary)
        .freed(120, 4, kTemporary)
        .freed(0, 30, kOutside)
        .freed(100, 2, kZero);
  Snapshot s = trace.snapshot(200, {{200, false}});
  tell_from_stacks(s);
  Workload workload = workload_of(s, 0, memory_before(s, 0));
  apply(parse_edit("model.py:88 until backward"), s, 0, workload);
  const std::vector<std::string> words = text_of(workload);
  EXPECT_EQ(
      (std::vector<std::string>{"take 30", "take 20", "back 30", "back 20", "take 30", "take 20",
                                "take 2", "back 20", "back 30", "take 4", "back 4", "back 2"}),
      std::vector<std::string>(words.begin(), words.begin() + 12));
}

TEST(Edits, ChangeTheBlocksOfALine) {
  Snapshot s = sample();
  tell_from_stacks(s);
  const auto edited = [&](const std::string& text) {
    Workload workload = workload_of(s, 0, memory_before(s, 0));
    apply(parse_edit(text), s, 0, workload);
    return text_of(workload);
  };
  EXPECT_EQ(
      (std::vector<std::string>{"take 20", "take 15", "take 10", "take 5", "back 5", "back 30",
                                "take 10", "take 5", "back 5", "back 10", "take 15", "refused 30"}),
      edited("model.py:88 x0.5"));
  EXPECT_EQ((std::vector<std::string>{"take 20", "take 30", "back 30", "take 10", "take 5",
                                      "back 5", "take 30", "back 30", "take 10", "take 5", "back 5",
                                      "back 10", "take 30", "refused 60"}),
            edited("model.py:88 until backward"));
  Workload third = workload_of(s, 0, memory_before(s, 0));
  apply(parse_edit("model.py:88 x0.3333333333"), s, 0, third);
  EXPECT_EQ(10485760, third.requests[1].bytes) << "a third of 30 MiB, rounded up";
  apply(parse_edit("model.py:88 x0.000000001"), s, 0, third);
  EXPECT_EQ(1, third.requests[1].bytes);
  EXPECT_THROW(edited("model.py:89 x0.5"), SnapshotError);
  EXPECT_THROW(edited("odel.py:88 x0.5"), SnapshotError);
  for (const char* wrong : {"model.py x0.5", "model.py:88", "model.py:88 x0", "model.py:88 xnan",
                            ":88 x2", "model.py:88 until forward", "model.py:-1 x2", ""})
    EXPECT_THROW(parse_edit(wrong), std::runtime_error) << wrong;
}

}  // namespace
}  // namespace tidemark
