// Memory held without need: which blocks count, at which moment.
#include "harness/memory/wastes.h"

#include <gmock/gmock.h>

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
  ASSERT_EQ(wastes.size(), 4u);
  EXPECT_EQ(text_of(wastes[0]), "900 of 1310; 900 layers.*.mlp forward model.py:3");
  EXPECT_EQ(text_of(wastes[1]), "500 of 618; 500 layers.*.mlp forward model.py:3");
  EXPECT_EQ(text_of(wastes[2]), "70 of 618; 70 layers.*.mlp forward model.py:3");
  EXPECT_EQ(text_of(wastes[3]), "? of 0") << "no backward is known";
}

TEST(Wastes, OfAnOptimizerAreUnknownWhereNoneHasStepped) {
  Snapshot s = training();
  s.phases = {step_at(1, 4, 2)};  // on another device
  const auto wastes = of_device_0(s, kPeak);
  EXPECT_EQ(text_of(wastes[0]), "900 of 1310; 900 layers.*.mlp forward model.py:3");
  EXPECT_EQ(text_of(wastes[1]), "? of 0");
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
  EXPECT_EQ(wastes[1].name, "activations that outlive the backward, when a backward has ended");
  EXPECT_EQ(text_of(wastes[1]), "300 of 340; 300 layers.*.mlp forward model.py:3");
  EXPECT_EQ(text_of(wastes[2]), "0 of 340");
  s.phases.resize(3);
  wastes = of_device_0(s, kPeak);
  EXPECT_EQ(text_of(wastes[1]), "300 of 340; 300 layers.*.mlp forward model.py:3") << "the last";
  s.phases[2].end = {7, 3};  // an allocation follows, and the block of 70 is held
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[2]), "70 of 618; 70 layers.*.mlp forward model.py:3");
}

// Two optimizers that take turns: the graph of the first step's block (300) is needed later.
TEST(Wastes, WhatALaterBackwardFreesIsNeeded) {
  Snapshot s = training();
  s.phases.push_back(phase("backward", {5, 2}, {5, 3}));
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[1]), "500 of 618; 500 layers.*.mlp forward model.py:3");
  s.phases = {step_at(0, 4, 2), phase("backward", {5, 2}, {5, 3})};
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[1]), "0 of 340");
  s.phases[1].end = {5, 2};  // it is over when the block is freed
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[1]), "300 of 340; 300 layers.*.mlp forward model.py:3");
}

TEST(Wastes, AnOptimizerThatStepsInABackwardEndsNone) {
  Snapshot s = training();
  s.phases = {phase("backward", {3, 0}, {4, 2}), step_at(0, 4, 0)};
  auto wastes = of_device_0(s, kPeak);
  EXPECT_EQ(wastes[1].name, "activations that outlive the backward, when a backward has ended");
  EXPECT_EQ(text_of(wastes[1]), "300 of 340; 300 layers.*.mlp forward model.py:3");
  EXPECT_EQ(text_of(wastes[2]), "0 of 340");
  s.phases[0].end = {5, 2};  // the program frees the block of 300 before it allocates again
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[1]), "0 of 48");
}

// torch.compile calls autograd while it compiles.
TEST(Wastes, ABackwardInAForwardIsNone) {
  Snapshot s = training();
  s.phases = {phase("forward", {0, 0}, {4, 2}), phase("backward", {2, 0}, {3, 0})};
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[1]), "? of 0");
}

TEST(Wastes, WhatIsFreedAndWaitsIsNotKept) {
  Snapshot s = training();
  s.phases = {step_at(0, 4, 0)};  // the block of 900 waits
  EXPECT_EQ(text_of(of_device_0(s, kPeak)[1]), "300 of 1310; 300 layers.*.mlp forward model.py:3");
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
  EXPECT_EQ(text_of(wastes[1]), "0 of 40");
  EXPECT_EQ(text_of(wastes[2]), "0 of 40");
}

}  // namespace
}  // namespace tidemark
