// What is said of a foreign snapshot, the answer first.
#include "reports/program/explanation.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <map>

#include "harness/memory/testing/written_trace.h"
#include "harness/record/file.h"
#include "harness/record/gzip.h"

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

/// Bytes by kind where memory ran out on the first device.
std::map<MemoryKind, Bytes> kinds_at_end(const ExplainedDevice& one) {
  std::map<MemoryKind, Bytes> out;
  for (const Part& part : one.device.oom->parts) out[part.kind] += part.bytes;
  return out;
}

// Of one program (harness/memory/testing/snapshot_forms.py), by 15 versions of torch.
TEST(Explanation, IsThatOfTheProgramWhateverTorchWroteIt) {
  constexpr Bytes kBlock = 4 * (256 * 512 + 512 + 512 * 256 + 256);  // two layers, in floats
  std::size_t files = 0;
  for (const auto& file : std::filesystem::directory_iterator(TIDEMARK_FORMS)) {
    ++files;
    const std::string version = file.path().filename().stem().stem().string();
    SCOPED_TRACE(version);
    std::vector<ExplainedDevice> all =
        explain(read_snapshot(file.path()), file.path().string(), {}, true);
    ASSERT_EQ(2u, all.size()) << "devices";
    EXPECT_EQ(4 << 20, all[1].device.end.active);
    const std::vector<std::string> lines = explanation(all);
    if (version == "1.13") {
      EXPECT_THAT(lines[0], HasSubstr("the file has no trace"));
      continue;
    }
    EXPECT_THAT(lines[0], testing::StartsWith(version + " ran out of memory: 4 TiB asked for by "));
    std::map<MemoryKind, Bytes> kinds = kinds_at_end(all[0]);
    EXPECT_EQ(2 * kBlock, kinds[MemoryKind::parameters]);
    EXPECT_EQ(4 * kBlock, kinds[MemoryKind::optimizer_state]);
    EXPECT_EQ(4 * 512 * 256, kinds[MemoryKind::inputs]);
    EXPECT_EQ(0, kinds[MemoryKind::gradients]) << "zero_grad has freed them";
    // The output; 2.9 and 2.10 keep 1 MiB for cuBLASLt, which only C++ frames would tell.
    const bool keeps = version == "2.9" || version == "2.10";
    EXPECT_EQ(4 * 512 * 256 + (keeps ? 1 << 20 : 0), kinds[MemoryKind::activations]);
    std::vector<std::string> phases;
    for (const auto& one : all[0].picture.phases)
      if (one.name != "load") phases.push_back(fmt::format("{} {}", one.name, one.step));
    EXPECT_EQ((std::vector<std::string>{"forward 1", "backward 1", "optimizer 1", "forward 2",
                                        "backward 2", "optimizer 2"}),
              phases);
    const bool has_pools = version != "2.0" && version != "2.1";
    EXPECT_EQ(has_pools ? 1u : 0u, all[0].pools.size());
    const bool has_host = version == "2.14" || version == "2.15";
    EXPECT_EQ(has_host ? "pinned memory of the host: 4 MiB at most (4 MiB: train "
                         "snapshot_forms.py:44), 4 MiB at the end of the file"
                       : "",
              all[0].host);
  }
  EXPECT_EQ(15u, files);
}

TEST(Explanation, RefusesAFileThatIsCutOff) {
  const std::string packed =
      read_bytes(std::filesystem::path(TIDEMARK_FORMS) / "2.15.pickle.gz", "", 1 << 20);
  const std::string bytes = *gunzip(packed);
  const auto said = [](const std::string& text) {
    try {
      parse_snapshot(text, "sample");
    } catch (const SnapshotError& error) {
      return std::string(error.what());
    }
    return std::string("taken");
  };
  EXPECT_EQ("taken", said(packed));
  for (const std::size_t size : {bytes.size() - 1, bytes.size() / 2, std::size_t{100}})
    EXPECT_THAT(said(bytes.substr(0, size)), HasSubstr("cut off")) << size;
  EXPECT_EQ("sample: is a damaged or cut off gzip file", said(packed.substr(0, packed.size() / 2)));
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
