// Memory that a program may do without: which blocks count, at which moment.
#include "harness/memory/wastes.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "harness/memory/testing/trace.h"
#include "reports/snapshot/render.h"

namespace tidemark {
namespace {

using namespace snapshot_testing;
using ::testing::HasSubstr;

// In `stacks` and `modules` below.
constexpr std::uint32_t kForward = 1, kGather = 2, kMlp = 1;

ProgramPhase step_at(std::int64_t device, std::int64_t allocations, std::int64_t frees) {
  return {device, {allocations, frees}, {allocations, frees}, "optimizer", 1};
}

/// Two training steps on device 0. An activation (300) stays over the first one's optimizer, a
/// larger one (500) and a gathered parameter (70) over the second one's; a parameter (40) is
/// labelled and always there; at the peak a block (900) is freed and waits.
Snapshot training() {
  Snapshot s;
  s.frames = {{"forward", "/y/model.py", 3},
              {"gather", "/site/torch/distributed/fsdp/_collectives.py", 4}};
  s.stacks = {{}, {0}, {1, 0}};
  s.modules = {"", "layers.11.mlp"};
  s.traces = {{event(AllocatorAction::alloc, 0, 40, kForward, kMlp),   // 1 allocation
               event(AllocatorAction::alloc, 1, 300, kForward, kMlp),  // 2
               event(AllocatorAction::alloc, 2, 900, kForward, kMlp),  // 3
               event(AllocatorAction::free_requested, 2, 900),         // it waits,
               event(AllocatorAction::alloc, 3, 70, kGather, kMlp),    // 4: the peak, 1310
               event(AllocatorAction::free_completed, 2, 900),         // 1 completed
               event(AllocatorAction::free_requested, 3, 70),
               event(AllocatorAction::free_completed, 3, 70),  // 2: the first step's moment
               event(AllocatorAction::alloc, 4, 8),            // 5: of the optimizer
               event(AllocatorAction::free_requested, 1, 300),
               event(AllocatorAction::free_completed, 1, 300),         // 3
               event(AllocatorAction::alloc, 1, 500, kForward, kMlp),  // 6
               event(AllocatorAction::alloc, 3, 70, kGather, kMlp),  // 7: the second step's moment
               event(AllocatorAction::alloc, 2, 600, kForward,
                     kMlp)}};  // 8: of a third step, which never comes
  s.labels = {{0, 1, kBase, MemoryKind::parameters, "layers.11.mlp.w"}};
  s.phases = {
      step_at(0, 4, 2), step_at(0, 7, 3), step_at(1, 8, 3), {0, {8, 3}, {8, 3}, "forward", 3}};
  return s;
}

constexpr std::size_t kPeak = 5;

std::vector<Waste> of_device_0(const Snapshot& s, std::size_t peak_event) {
  return wastes_of(s, 0, labels_of(s, 0), peak_event);
}

TEST(Wastes, AreOfTheirMoments) {
  const auto wastes = of_device_0(training(), kPeak);
  ASSERT_EQ(wastes.size(), 5u);
  EXPECT_EQ(text_of(wastes[0]), "900 of 1310; 900 layers.*.mlp forward model.py:3");
  EXPECT_EQ(text_of(wastes[2]), "500 of 618; 500 layers.*.mlp forward model.py:3");
  EXPECT_EQ(text_of(wastes[3]), "70 of 618; 70 layers.*.mlp forward model.py:3 (in gather)");
  EXPECT_EQ(text_of(wastes[4]), "? of 0") << "no backward is known";
}

TEST(Wastes, OfAnOptimizerAreUnknownWhereNoneHasStepped) {
  Snapshot s = training();
  s.phases = {step_at(1, 4, 2)};  // on another device
  const auto wastes = of_device_0(s, kPeak);
  EXPECT_EQ(text_of(wastes[0]), "900 of 1310; 900 layers.*.mlp forward model.py:3");
  EXPECT_EQ(text_of(wastes[2]), "? of 0");
  DeviceSummary device;
  device.wastes = wastes;
  EXPECT_THAT(wastes_text(device, 3), HasSubstr("backward, when a backward has ended: not known"));
}

ProgramPhase phase(const char* name, ProgramPhase::Moment begin, ProgramPhase::Moment end) {
  return {0, begin, end, name, 1};
}

// A backward that leaves a forward without its own is not the last of its step.
TEST(Wastes, WithoutAnOptimizerAreOfTheEndsOfBackwards) {
  Snapshot s = training();
  s.phases = {phase("forward", {0, 0}, {3, 0}), phase("forward", {3, 0}, {4, 0}),
              phase("backward", {4, 0}, {4, 1}), phase("backward", {4, 1}, {4, 2})};
  auto wastes = of_device_0(s, kPeak);
  EXPECT_EQ(wastes[2].name, "activations that outlive the backward, when a backward has ended");
  EXPECT_EQ(text_of(wastes[2]), "300 of 340; 300 layers.*.mlp forward model.py:3");
  EXPECT_EQ(text_of(wastes[3]), "0 of 340");
  s.phases.resize(3);
  wastes = of_device_0(s, kPeak);
  EXPECT_EQ(text_of(wastes[2]), "300 of 340; 300 layers.*.mlp forward model.py:3") << "the last";
  s.phases[2].end = {7, 3};  // an allocation follows, and the block of 70 is held
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[3]),
            "70 of 618; 70 layers.*.mlp forward model.py:3 (in gather)");
}

// What the graph keeps then was not held by the program: the error came before it was freed.
TEST(Wastes, ABackwardThatARefusedRequestHasEndedIsNoEndOfOne) {
  Snapshot s = training();
  s.phases = {phase("forward", {0, 0}, {4, 0}), phase("backward", {4, 0}, {4, 2})};
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[2]), "300 of 340; 300 layers.*.mlp forward model.py:3");
  for (const int at : {5, 8}) {
    Snapshot refused = s;
    refused.traces[0].insert(refused.traces[0].begin() + at, event(AllocatorAction::oom, 0, 99));
    EXPECT_EQ(text_of(of_device_0(refused, kPeak)[2]), "? of 0") << at;
    refused.phases[1].end = {5, 2};  // it goes on: a smaller request is granted
    EXPECT_EQ(text_of(of_device_0(refused, kPeak)[2]), "0 of 48") << at;
  }
}

// Two optimizers that take turns: the graph of the first step's block (300) is needed later.
TEST(Wastes, WhatALaterBackwardFreesIsNeeded) {
  Snapshot s = training();
  s.phases.push_back(phase("backward", {5, 2}, {5, 3}));
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[2]), "500 of 618; 500 layers.*.mlp forward model.py:3");
  s.phases = {step_at(0, 4, 2), phase("backward", {5, 2}, {5, 3})};
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[2]), "0 of 340");
  s.phases[1].end = {5, 2};  // it is over when the block is freed
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[2]), "300 of 340; 300 layers.*.mlp forward model.py:3");
}

TEST(Wastes, AnOptimizerThatStepsInABackwardEndsNone) {
  Snapshot s = training();
  s.phases = {phase("backward", {3, 0}, {4, 2}), step_at(0, 4, 0)};
  auto wastes = of_device_0(s, kPeak);
  EXPECT_EQ(wastes[2].name, "activations that outlive the backward, when a backward has ended");
  EXPECT_EQ(text_of(wastes[2]), "300 of 340; 300 layers.*.mlp forward model.py:3");
  EXPECT_EQ(text_of(wastes[3]), "0 of 340");
  s.phases[0].end = {5, 2};  // the program frees the block of 300 before it allocates again
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[2]), "0 of 48");
}

// torch.compile calls autograd while it compiles.
TEST(Wastes, ABackwardInAForwardIsNone) {
  Snapshot s = training();
  s.phases = {phase("forward", {0, 0}, {4, 2}), phase("backward", {2, 0}, {3, 0})};
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[2]), "? of 0");
}

TEST(Wastes, WhatIsFreedAndWaitsIsNotKept) {
  Snapshot s = training();
  s.phases = {step_at(0, 4, 0)};  // the block of 900 waits
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[2]), "300 of 1310; 300 layers.*.mlp forward model.py:3");
}

TEST(Wastes, ABlockInThePlaceOfAFreedOneIsNotFreed) {
  Snapshot s = training();
  s.traces = {{event(AllocatorAction::alloc, 0, 100, kForward),
               event(AllocatorAction::free_requested, 0, 100),
               event(AllocatorAction::free_completed, 0, 100),
               event(AllocatorAction::alloc, 0, 100, kForward)}};
  EXPECT_EQ(text_of(of_device_0(s, 4)[0]), "0 of 100");
}

TEST(Wastes, NoneIsZeroBytesAndNotUnknown) {
  Snapshot s = training();
  s.phases = {step_at(0, 1, 0)};  // only the parameter is there
  const auto wastes = of_device_0(s, 1);
  EXPECT_EQ(text_of(wastes[0]), "0 of 40");
  EXPECT_EQ(text_of(wastes[2]), "0 of 40");
  EXPECT_EQ(text_of(wastes[3]), "0 of 40");
}

constexpr std::uint32_t kBackward = 3;  // a stack of a node of autograd

UseLabel use(std::int64_t allocations, int block, BlockUse what) {
  return {0, allocations, at(block), what};
}

/// Blocks of a random program with an optimizer: activations, buffers and blocks of backwards, each
/// allocated in a step, freed after some steps or never, and read again or not.
class DrawnProgram {
 public:
  explicit DrawnProgram(unsigned seed) : random_(seed) {
    s_.frames = {{"forward", "/y/model.py", 3},
                 {"gather", "/site/torch/distributed/fsdp/_collectives.py", 4},
                 {"MmBackward0", "autograd", 0}};
    s_.stacks = {{}, {0}, {1, 0}, {2, 0}};
    s_.modules = {"", "mlp"};
    s_.traces.resize(1);
    s_.uses = {UseLabel{}};
    steps_ = draw(1, 8);
    for (int step = 0; step < steps_; ++step) run(step);
    for (Block& one : blocks_) {
      one.freed = std::min(one.freed, steps_);
      if (one.last_read >= steps_) one.last_read = one.made;  // the program has ended before
    }
  }

  const Snapshot& snapshot() const { return s_; }

  /// By the definition, of each step: bytes of blocks that are there before its optimizer, and that
  /// nothing reads later.
  std::int64_t most(bool of_buffers) const {
    std::int64_t out = 0;
    for (int step = 0; step < steps_; ++step) {
      std::int64_t sum = 0;
      for (const Block& one : blocks_)
        if (one.made <= step && one.freed >= step && one.last_read <= step &&
            (of_buffers ? one.stack == kGather
                        : one.stack == kForward || (one.stack == kBackward && one.in_graph)) &&
            (steps_ <= 2 || one.freed < steps_ || steps_ - 1 - step >= 2))
          sum += one.bytes;
      out = std::max(out, sum);
    }
    return out;
  }

 private:
  struct Block {
    int made = 0, freed = 1 << 20, last_read = 0;  // steps; freed after that step's optimizer
    std::uint32_t stack = 0;
    bool in_graph = false;
    std::int64_t bytes = 0;
    int address = 0;  // number of a block
  };
  int draw(int least, int most) { return std::uniform_int_distribution<int>(least, most)(random_); }
  void run(int step) {
    auto& trace = s_.traces[0];
    const auto allocate = [&](int address, std::int64_t bytes, std::uint32_t stack) {
      trace.push_back(event(AllocatorAction::alloc, address, bytes, stack, kMlp));
      ++now_.allocations;
    };
    const auto free = [&](int address, std::int64_t bytes) {
      trace.push_back(event(AllocatorAction::free_requested, address, bytes));
      trace.push_back(event(AllocatorAction::free_completed, address, bytes));
      ++now_.frees;
    };
    for (Block& one : blocks_)
      if (one.last_read == step && one.made < step)
        s_.uses.push_back(use(now_.allocations, one.address, BlockUse::read));
    allocate(next_, 1, 0);  // what the optimizer works with: it tells a step from the one before
    free(next_++, 1);
    for (int i = draw(0, 4); i > 0; --i) {
      Block& one = blocks_.emplace_back();
      one.made = one.last_read = step;
      if (draw(0, 1) == 0) one.freed = step + draw(0, 3);
      if (draw(0, 1) == 0) one.last_read = std::min(step + draw(0, 3), one.freed);
      one.stack = static_cast<std::uint32_t>(draw(kForward, kBackward));
      one.in_graph = draw(0, 1) == 0;
      one.bytes = draw(1, 1000), one.address = next_++;
      allocate(one.address, one.bytes, one.stack);
      if (one.in_graph) s_.uses.push_back(use(now_.allocations, one.address, BlockUse::in_graph));
    }
    s_.phases.push_back({0, now_, now_, "optimizer", step + 1});
    allocate(next_, 1, 0);
    free(next_++, 1);
    for (Block& one : blocks_)
      if (one.freed == step) free(one.address, one.bytes);
  }

  std::mt19937 random_;
  Snapshot s_;
  std::vector<Block> blocks_;
  ProgramPhase::Moment now_;
  int next_ = 0, steps_ = 0;
};

// A rollout, a carried state, a shard: whatever a later step reads was needed.
TEST(Wastes, WhatIsReadAgainIsNotCounted) {
  for (unsigned seed = 0; seed < 1000; ++seed) {
    const DrawnProgram program(seed);
    const auto wastes = of_device_0(program.snapshot(), 1);
    EXPECT_EQ(wastes[2].bytes.value_or(0), program.most(false)) << seed;
    EXPECT_EQ(wastes[3].bytes.value_or(0), program.most(true)) << seed;
  }
}

TEST(Wastes, OfARecordThatDoesNotFollowUsesAreAsBefore) {
  Snapshot s = training();
  s.uses = {use(8, 1, BlockUse::read)};
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[2]), "500 of 618; 500 layers.*.mlp forward model.py:3");
  s.uses.insert(s.uses.begin(), UseLabel{});
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[2]), "300 of 340; 300 layers.*.mlp forward model.py:3");
}

// Alive at the peak, freed by the collector, and not read since.
TEST(Wastes, GarbageIsWhatTheCollectorFreesAndNothingReads) {
  Snapshot s = training();
  s.uses = {UseLabel{}, use(5, 1, BlockUse::collected)};
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[1]), "300 of 1310; 300 layers.*.mlp forward model.py:3");
  s.uses.push_back(use(4, 1, BlockUse::read));
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[1]), "0 of 1310") << "read after the peak";
  s.uses.back() = use(3, 1, BlockUse::read);
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[1]), "300 of 1310; 300 layers.*.mlp forward model.py:3");
  s.uses.clear();
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[1]), "? of 0");
}

TEST(Wastes, AreNamedWithWhatHoldsMostOfThem) {
  Snapshot s = training();
  s.phases = {step_at(0, 3, 0)};  // blocks of 300 and 900, and the parameter
  s.holders = {{0, 3, at(1), HolderKind::before_step, "`log` in main (train.py:9)"}};
  EXPECT_EQ(of_device_0(s, kPeak)[2].holder.text(), "`log` in main (train.py:9) (1 of 2 blocks)")
      << "of the other it is not known";
  s.holders.push_back({0, 3, at(2), HolderKind::before_step, "`all` in main (train.py:7)"});
  EXPECT_EQ(of_device_0(s, kPeak)[2].holder.text(), "`all` in main (train.py:7) (1 of 2 blocks)");
  s.holders.back().name = "`log` in main (train.py:9)";
  EXPECT_EQ(of_device_0(s, kPeak)[2].holder.text(), "`log` in main (train.py:9)");
}

// A block is looked for within its step, where a graph or a list of losses holds it; before an
// optimizer's step; and when the next one has begun.
TEST(Wastes, AreHeldByWhatHoldsThemWhenTheyAreNoLongerNeeded) {
  const unsigned seed = std::random_device()();
  std::mt19937 random(seed);
  for (int round = 0; round < 1000; ++round) {
    const auto draw = [&] { return random() % 2 == 0; };
    Snapshot s = training();
    s.traces = {{}};
    s.phases.clear(), s.labels.clear();
    std::int64_t made = 0;
    const auto allocate = [&](int block, std::int64_t size) {
      s.traces[0].push_back(event(AllocatorAction::alloc, block, size, kForward, kMlp)), ++made;
    };
    const bool has_optimizer = draw();
    std::string holder;  // of the first step's block, at the last moment, where most is there
    for (int step = 0; step < 3; ++step) {
      const auto searched = [&](HolderKind kind, const char* name) {
        s.holders.push_back({0, made, at(0), kind, name});
      };
      if (step > 0 && draw()) searched(HolderKind::object, (holder = "kept").c_str());
      allocate(step, step == 0 ? 1000 : 1);
      if (step == 0 && draw()) searched(HolderKind::object, "graph");
      if (step == 0 && draw()) searched(HolderKind::before_step, "in a backward");
      allocate(10 + step, 1);
      if (has_optimizer && draw()) {  // a variable of a step is gone in the next one
        searched(HolderKind::before_step, "variable");
        if (step == 2) holder = "variable";
      }
      s.phases.push_back(has_optimizer ? ProgramPhase{0, {made, 0}, {made, 0}, "optimizer", 1}
                                       : phase("backward", {made - 1, 0}, {made, 0}));
      allocate(20 + step, 1);
    }
    std::ranges::stable_sort(s.phases, {}, &ProgramPhase::begin);
    EXPECT_EQ(of_device_0(s, 1)[2].holder.name, holder) << "seed " << seed << ", " << round;
  }
}

// A retained graph is as large in each step, and what holds it is looked for from the second on.
TEST(Wastes, OfEqualMomentsAreThoseOfTheOneWhoseHolderIsKnown) {
  for (const std::int64_t first : {499, 500, 501}) {
    Snapshot s = training();
    for (const std::size_t event : {1, 9, 10}) s.traces[0][event].size = first;
    s.holders = {{0, 7, at(1), HolderKind::before_step, "`loss` in main (train.py:9)"}};
    const Waste waste = of_device_0(s, kPeak)[2];
    EXPECT_EQ(waste.bytes, std::max<std::int64_t>(first, 500));
    EXPECT_EQ(waste.holder.name, first > 500 ? "" : "`loss` in main (train.py:9)") << first;
    s.holders[0].allocations = 4;
    EXPECT_EQ(of_device_0(s, kPeak)[2].holder.is_known(), first >= 500) << first;
  }
}

}  // namespace
}  // namespace tidemark
