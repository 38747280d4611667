// Gathered inputs that the graph keeps: which blocks count, and with how many bytes.
#include <gtest/gtest.h>

#include "harness/memory/testing/trace.h"
#include "harness/memory/wastes.h"

namespace tidemark {
namespace {

using namespace snapshot_testing;

// In `stacks` below.
constexpr std::uint32_t kForward = 1, kShards = 2, kCopy = 3;

/// Builds the forward of layers on device 0, then a backward that frees what is named.
struct Program {
  Snapshot s;
  std::int64_t allocations = 0, frees = 0;

  Program() {
    s.frames = {{"forward", "/y/model.py", 3},
                {"all_gather", "/site/torch/distributed/fsdp/_collectives.py", 4},
                {"_maybe_view_chunk_cat", "/site/torch/_utils.py", 5},
                {"all_gather_tensor", "/site/torch/distributed/_functional_collectives.py", 6}};
    s.stacks = {{}, {0}, {1, 0}, {2, 3, 0}};
    s.modules = {"", "layers.3.mlp"};
    s.traces = {{}};
    alloc(0, 100);  // a shard that stays
  }
  void alloc(int block, std::int64_t size, std::uint32_t stack = kForward) {
    s.traces[0].push_back(event(AllocatorAction::alloc, block, size, stack, 1));
    ++allocations;
  }
  void gathered(int output, int shard = 0, std::uint32_t stack = kForward) {
    alloc(output, 400, stack);
    s.gathers.push_back({0, allocations, at(output), at(shard), 100});
  }
  void free(int block, std::int64_t size) {
    s.traces[0].push_back(event(AllocatorAction::free_requested, block, size));
    s.traces[0].push_back(event(AllocatorAction::free_completed, block, size));
    ++frees;
  }
  void backward(const std::vector<std::pair<int, std::int64_t>>& freed) {
    const ProgramPhase::Moment begin{allocations, frees};
    for (const auto& [block, size] : freed) free(block, size);
    s.phases.push_back({0, begin, {allocations, frees}, "backward", 1});
  }
  std::string text_of() const {
    return snapshot_testing::text_of(gathered_waste(s, 0, labels_of(s, 0)));
  }
};

TEST(Gathered, CountsBeyondItsShard) {
  Program p;
  p.gathered(1);  // its shard stays
  p.alloc(2, 100);
  p.gathered(3, 2);
  p.free(2, 100);   // this shard goes
  p.alloc(4, 400);  // another activation
  p.backward({{4, 400}, {3, 400}, {1, 400}});
  EXPECT_EQ(p.text_of(), "700 of 1300; 700 layers.*.mlp forward model.py:3");
}

TEST(Gathered, IsWhatTheBackwardFrees) {
  Program p;
  p.gathered(1);  // a buffer that stays
  p.gathered(2);  // freed in the forward
  p.free(2, 400);
  p.gathered(3);  // freed after the backward
  p.alloc(4, 8);
  p.backward({{4, 8}});
  p.free(3, 400);
  EXPECT_EQ(p.text_of(), "0 of 908");
}

TEST(Gathered, TakesTheBackwardAtWhichItIsMost) {
  Program p;
  p.gathered(1);
  p.backward({{1, 400}});
  for (int microbatch : {1, 2}) p.gathered(microbatch);
  p.backward({{1, 400}});
  p.backward({{2, 400}});
  EXPECT_EQ(p.text_of(), "800 of 900; 800 layers.*.mlp forward model.py:3");
}

TEST(Gathered, ACopyAlongAnotherDimensionCounts) {
  Program p;
  p.gathered(1);
  p.alloc(2, 400, kCopy);
  p.free(1, 400);
  p.backward({{2, 400}});
  EXPECT_EQ(p.text_of(), "400 of 500; 400 layers.*.mlp forward model.py:3 (in all_gather_tensor)");
}

TEST(Gathered, ParametersOfShardingAreNotInputs) {
  Program p;
  p.gathered(1, 0, kShards);
  p.gathered(2);
  p.s.labels = {{0, p.allocations, at(2), MemoryKind::parameters, "layers.3.mlp.w"}};
  p.backward({{1, 400}, {2, 400}});
  EXPECT_EQ(p.text_of(), "0 of 900");
}

TEST(Gathered, IsUnknownWithoutABackward) {
  Program p;
  EXPECT_EQ(p.text_of(), "? of 0");
}

}  // namespace
}  // namespace tidemark
