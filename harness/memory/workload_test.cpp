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
  trace.add("alloc", 120, 3, kBackward).freed(0, 30, kBackward);
  Snapshot s = trace.snapshot(200, {{110, false}, {2, true}, {8, false}, {3, true}, {77, false}});
  tell_from_stacks(s);
  Workload workload = workload_of(s, 0, memory_before(s, 0));
  const Edited edited = apply(parse_edit("model.py:88 until backward"), s, 0, workload);
  EXPECT_EQ(2u, edited.recomputed);
  EXPECT_EQ(
      (std::vector<std::string>{"take 30", "take 7", "back 7", "take 30", "take 7", "back 7",
                                "back 30", "back 30", "take 30", "take 7", "back 7", "take 2",
                                "back 30", "take 30", "take 7", "back 7", "take 3", "back 30"}),
      text_of(workload));
  std::set<std::int64_t> alive;
  for (const AllocatorRequest& one : workload.requests) {
    if (one.what == AllocatorRequest::What::take)
      EXPECT_TRUE(alive.insert(one.address).second) << one.address;
    else
      EXPECT_EQ(1u, alive.erase(one.address)) << one.address;
  }
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
  EXPECT_THROW(edited("model.py:89 x0.5"), SnapshotError);
  EXPECT_THROW(edited("odel.py:88 x0.5"), SnapshotError);
  for (const char* wrong : {"model.py x0.5", "model.py:88", "model.py:88 x0", "model.py:88 xnan",
                            ":88 x2", "model.py:88 until forward", "model.py:-1 x2", ""})
    EXPECT_THROW(parse_edit(wrong), std::runtime_error) << wrong;
}

}  // namespace
}  // namespace tidemark
