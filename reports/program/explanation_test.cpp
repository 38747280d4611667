// What is said of a foreign snapshot, the answer first.
#include "reports/program/explanation.h"

#include <gmock/gmock.h>

#include "harness/memory/testing/written_trace.h"

namespace tidemark {
namespace {

using ::testing::HasSubstr;

TEST(Explanation, RefusesATraceThatContradictsItself) {
  const auto without = [](AllocatorAction action) {
    Snapshot s = sample();
    std::erase_if(s.traces[0], [&](const AllocatorEvent& e) { return e.action == action; });
    return explain(s, "a", {}, false);
  };
  EXPECT_THROW(without(AllocatorAction::free_completed), SnapshotError);
  EXPECT_THROW(without(AllocatorAction::alloc), SnapshotError);
  EXPECT_NO_THROW(without(AllocatorAction::snapshot));
}

TEST(Explanation, HasARowForEachPoolAndTheHostsMemory) {
  const auto segment = [](int address, const char* pool) {
    return fmt::format(
        R"({{"address":{0},"total_size":100,"stream":0,"segment_type":"small","segment_pool_id":{1},)"
        R"("blocks":[{{"size":60,"requested_size":50,"address":{0},"state":"active_allocated"}},)"
        R"({{"size":40,"requested_size":0,"address":{2},"state":"inactive"}}]}})",
        address, pool, address + 60);
  };
  const auto event = [](const char* action, int address, int size) {
    return fmt::format(R"({{"action":"{}","addr":{},"size":{},"stream":0,"frames":{}}})", action,
                       address, size, kOutside);
  };
  const Snapshot s = parse_snapshot(
      fmt::format(R"({{"segments":[{},{},{}],"device_traces":[[]],"host_traces":[{},{},{},{}]}})",
                  segment(0, "[0,0]"), segment(1000, "[0,1]"), segment(2000, "[2,0]"),
                  event("segment_alloc", 0, 64), event("alloc", 0, 64), event("alloc", 64, 32),
                  event("free_completed", 0, 64)),
      "sample");
  EXPECT_THAT(
      explanation(explain(s, "oom_rank0.pickle", {}, false)),
      testing::IsSupersetOf(
          {"private pool (0, 1) (of graphs that share it, or a MemPool): 100 bytes reserved, 60 "
           "bytes in use",
           "graph pool (2, 0): 100 bytes reserved, 60 bytes in use",
           "pinned memory of the host: 96 bytes at most (96 bytes: main train.py:9), 32 bytes at "
           "the end of the file"}));
}

TEST(Explanation, SaysHowRanksDiffer) {
  Trace smaller;
  smaller.add("segment_alloc", 0, 100, kOutside).add("alloc", 0, 20, kOutside);
  std::vector<ExplainedDevice> all = explain(sample(), "oom_rank0.pickle", {}, false);
  for (ExplainedDevice& one : explain(smaller.add("alloc", 20, 10, kForward)
                                          .snapshot(100, {{20, true}, {10, true}, {70, false}}),
                                      "oom_rank1.pickle", {}, false))
    all.push_back(std::move(one));
  EXPECT_THAT(
      explanation(all),
      testing::Contains("rank 0 has the highest peak: 65 MiB, 35 MiB more than rank 1, which "
                        "has the lowest: activations +20 MiB, gradients +10 MiB, backward "
                        "+5 MiB"));
}

TEST(Explanation, BeginsWithWhatRanOut) {
  const auto lines = explanation(explain(sample(), "oom_rank3.pickle", {}, false));
  ASSERT_EQ(2u, lines.size());
  EXPECT_EQ(
      "rank 3 ran out of memory: 60 MiB asked for in forward of step 2 by forward model.py:88, 7 "
      "MiB free, 40 MiB reserved but unused",
      lines[0]);
  EXPECT_EQ(
      "made of: activations 30 MiB (forward model.py:88), other 20 MiB (main train.py:9), "
      "optimizer "
      "state 10 MiB (main train.py:9)",
      lines[1]);
}

TEST(Explanation, SaysOnceWhatCannotBeKnown) {
  Snapshot none = sample();
  none.traces[0].clear();
  EXPECT_THAT(explanation(explain(none, "a", {}, false))[0], HasSubstr("the file has no trace"));
  Snapshot ring = sample();
  ring.traces[0].erase(ring.traces[0].begin(), ring.traces[0].begin() + 2);
  EXPECT_THAT(explanation(explain(ring, "a", {}, false))[0],
              HasSubstr("20 MiB are from before the 15 events of the history"));
  Snapshot bare = sample();
  for (AllocatorEvent& event : bare.traces[0]) event.stack = 0;
  EXPECT_THAT(explanation(explain(bare, "a", {}, false))[0], HasSubstr("no stacks were recorded"));
}

}  // namespace
}  // namespace tidemark
