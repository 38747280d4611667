// Parts of a peak: which block has which label, and what the others are by what allocated them.
#include "harness/memory/parts.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "harness/memory/testing/trace.h"
#include "reports/snapshot/render.h"

namespace tidemark {
namespace {

using namespace snapshot_testing;
using testing::HasSubstr;

/// As `tidemark exec --report` writes it: an activation, a parameter at an address that a freed
/// block had before, its gradient of the autograd thread, a block of the optimizer.
Snapshot labelled() {
  Snapshot s;
  s.frames = {{"forward", "/y/model.py", 3},
              {"step", "/site/torch/optim/adam.py", 9},
              {"gather", "/site/torch/distributed/fsdp/_collectives.py", 4},
              {"AddmmBackward0", "autograd", 0},
              {"_init_group", "/site/torch/optim/adam.py", 5}};
  s.stacks = {{}, {0}, {1, 0}, {2, 0}, {3}, {4, 1, 0}};
  s.modules = {"", "layers.11.mlp.0"};
  Segment segment;
  segment.address = kBase, segment.total_size = 12 * 512;
  for (const std::int64_t bytes : {100, 30, 40, 5, 7, 6, 3, 2})
    segment.blocks.push_back(
        {kBase + 512 * std::ssize(segment.blocks), 512, bytes, BlockState::allocated, 0});
  segment.blocks.push_back({kBase + 4096, 1536, 1500, BlockState::allocated, 0});
  segment.blocks.push_back({kBase + 5632, 512, 10, BlockState::allocated, 0});
  s.segments = {segment};
  s.traces = {
      {event(AllocatorAction::alloc, 0, 8, 1, 1), event(AllocatorAction::free_requested, 0, 8),
       event(AllocatorAction::free_completed, 0, 8), event(AllocatorAction::alloc, 0, 100, 1),
       event(AllocatorAction::alloc, 1, 30, 1, 1), event(AllocatorAction::alloc, 2, 40),
       event(AllocatorAction::alloc, 3, 5), event(AllocatorAction::alloc, 4, 7, 2),
       event(AllocatorAction::alloc, 5, 6, 3, 1), event(AllocatorAction::alloc, 6, 3, 4, 1),
       event(AllocatorAction::alloc, 7, 2, 5), event(AllocatorAction::alloc, 9, 400, 1),
       event(AllocatorAction::free_requested, 9, 400),
       event(AllocatorAction::free_completed, 9, 400), event(AllocatorAction::alloc, 8, 1500, 1),
       event(AllocatorAction::alloc, 11, 9, 1), event(AllocatorAction::free_requested, 11, 9),
       event(AllocatorAction::free_completed, 11, 9), event(AllocatorAction::alloc, 11, 10, 1)}};
  s.labels = {{0, 1, kBase, MemoryKind::buffers, "gone"},
              {0, 2, kBase + 96, MemoryKind::parameters, "layers.3.w"},
              {0, 5, kBase + 1024, MemoryKind::gradients, "layers.3.w"},
              {0, 5, kBase + 900, MemoryKind::parameters, "beyond.the.block"},
              {1, 5, kBase + 512, MemoryKind::gradients, "of.another.device"},
              {0, 11, kBase + 4700, MemoryKind::parameters, "big.w"},  // a freed block began nearer
              {0, 12, kBase + 5632, MemoryKind::gradients,
               "x.w"}};  // its block is freed, and the next is none
  return s;
}

// Weights and gradients that a program gathers, in no graph or in one; a module's own gather is its
// activation, and a function of the program's with that name is none of PyTorch's.
TEST(Parts, AGatheredDTensorIsAShardingBufferOutsideModules) {
  for (const char* folder : {"distributed/tensor/", "distributed/_tensor/", "elsewhere/"})
    for (const char* function : {"full_tensor", "redistribute"})
      for (const char* module : {"", "outside modules", "layers.0"}) {
        Snapshot s;
        s.frames = {{"all_gather_tensor", "/site/torch/distributed/_functional_collectives.py", 4},
                    {function, std::string("/site/torch/") + folder + "api.py", 5},
                    {"sync", "/y/train.py", 6}};
        s.stacks = {{}, {0, 1, 2}};
        s.modules = {"", "layers.1", module};
        const std::uint32_t at = *module == 0 ? 0 : 2;
        s.traces = {{event(AllocatorAction::alloc, 0, 100, 1, at)}};
        const bool gathers = std::string(folder) != "elsewhere/" &&
                             std::string(function) == "full_tensor" &&
                             std::string(module) != "layers.0";
        EXPECT_EQ(part_of(s, s.traces[0][0], {}).kind, gathers        ? MemoryKind::sharding_buffers
                                                       : *module == 0 ? MemoryKind::other
                                                                      : MemoryKind::activations)
            << folder << function << module;
      }
}

TEST(Parts, OfThePeakByKindAndModule) {
  const Snapshot s = labelled();
  const DeviceSummary d = analyse(s).at(0);
  std::vector<std::string> parts;
  std::int64_t sum = 0;
  for (const Part& one : d.parts) {
    parts.push_back(std::string(name_of(one.kind)) + "|" + one.module + "|" + one.site + "|" +
                    std::to_string(one.bytes));
    sum += one.bytes;
  }
  EXPECT_EQ(sum, d.peak.active);
  EXPECT_THAT(
      parts,
      testing::ElementsAre(
          "parameters|big|forward model.py:3|1500", "parameters|layers.*|forward model.py:3|100",
          "gradients|layers.*||40", "activations|layers.*.mlp.0|forward model.py:3|30",
          "other||forward model.py:3|10", "backward|||5",
          "backward|layers.*.mlp.0|AddmmBackward0|3", "optimizer temporaries||forward model.py:3|7",
          "sharding buffers|layers.*.mlp.0|forward model.py:3 (in gather)|6",
          "optimizer state||forward model.py:3|2"));
  EXPECT_THAT(snapshot_text({"f", s}, 10),
              HasSubstr("parameters                        1,600 bytes"));
  const auto json = nlohmann::json::parse(snapshot_summary_json({"f", s}));
  EXPECT_EQ(json["devices"][0]["parts"][2]["kind"], "gradients");
}

TEST(Parts, TheLongestNameAtAnAddressCounts) {
  Snapshot s;
  s.traces = {{event(AllocatorAction::alloc, 0, 400)}};
  s.labels = {{0, 1, kBase, MemoryKind::parameters, "0.weight"},
              {0, 1, kBase + 200, MemoryKind::parameters, "0.bias"},
              {0, 1, kBase, MemoryKind::parameters, "features.0.weight"},
              {0, 1, kBase + 200, MemoryKind::parameters, "features.0.bias"}};
  const auto module = [&] { return labels_of(s, 0).at(&s.traces[0][0]).module(); };
  EXPECT_EQ("features.0", module());
  s.labels.push_back({0, 1, kBase, MemoryKind::parameters, "head.weight"});
  EXPECT_EQ("{features,head}", module()) << "another tensor";
  s.labels = {{0, 1, kBase, MemoryKind::gradients, ""},
              {0, 1, kBase, MemoryKind::gradients, "head.weight"}};
  EXPECT_EQ("head", module());
  for (const bool later : {false, true}) {
    s.labels = {{0, 1, kBase, MemoryKind::parameters, "Tensor[4, 256]"}};
    s.labels.insert(later ? s.labels.begin() : s.labels.end(),
                    {0, 1, kBase, MemoryKind::parameters, "head.weight"});
    EXPECT_EQ("head", module()) << "a path counts more than a shape";
  }
}

TEST(BlockLabel, OneBlockOfSeveralTensorsHasTheModulesOfAll) {
  const auto module = [](std::set<std::string> names) {
    return BlockLabel{MemoryKind::parameters, std::move(names)}.module();
  };
  EXPECT_EQ("", module({"weight"}));
  EXPECT_EQ("layers.0.up", module({"layers.0.up.weight", "layers.0.up.bias"}));
  EXPECT_EQ("layers.0.{down,up}", module({"layers.0.up.weight", "layers.0.down.weight"}));
  EXPECT_EQ("layers.{0,1}", module({"layers.0.up.weight", "layers.1.up.weight"}));
  EXPECT_EQ("layers.0.{up}", module({"layers.0.up.weight", "layers.0.scale"}));
  EXPECT_EQ("{head,norm}", module({"norm.weight", "head.weight", "scale"}));
}

}  // namespace
}  // namespace tidemark
