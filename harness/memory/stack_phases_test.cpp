// Phases, kinds, steps and modules by the stacks of a foreign snapshot.
#include "harness/memory/stack_phases.h"

#include <gmock/gmock.h>

#include <array>
#include <map>

#include "harness/memory/analysis.h"
#include "harness/memory/parts.h"
#include "harness/memory/stack_facts.h"
#include "harness/memory/testing/written_trace.h"

namespace tidemark {
namespace {

using ::testing::HasSubstr;

TEST(Stacks, NameKindsPhasesAndSteps) {
  Snapshot s = sample();
  tell_from_stacks(s);
  const auto all = analyse(s);
  ASSERT_EQ(1u, all.size());
  std::map<MemoryKind, Bytes> kinds;
  for (const Part& part : all[0].parts) kinds[part.kind] += part.bytes >> 20;
  // The peak: 20 outside, 30 + 10 + 5.
  EXPECT_EQ((std::map<MemoryKind, Bytes>{{MemoryKind::other, 20},
                                         {MemoryKind::activations, 30},
                                         {MemoryKind::gradients, 10},
                                         {MemoryKind::backward, 5}}),
            kinds);
  kinds.clear();
  for (const Part& part : all[0].oom->parts) kinds[part.kind] += part.bytes >> 20;
  EXPECT_EQ((std::map<MemoryKind, Bytes>{{MemoryKind::other, 20},
                                         {MemoryKind::activations, 30},
                                         {MemoryKind::optimizer_state, 10}}),
            kinds);
  std::vector<std::string> phases;
  for (const ProgramPhase& one : s.phases)
    phases.push_back(fmt::format("{} {}", one.name, one.step));
  EXPECT_EQ((std::vector<std::string>{"forward 1", "backward 1", "optimizer 1", "forward 2"}),
            phases);
  EXPECT_TRUE(all[0].wastes.empty()) << "uses are not recorded";
}

TEST(Stacks, CountBackwardsWhereTheOptimizerAllocatesItsStateAlone) {
  Trace trace;
  trace.add("segment_alloc", 0, 100, kOutside);
  for (int step = 0; step < 3; ++step) {
    trace.add("alloc", 20, 30, kForward).add("alloc", 50, 10, kBackward).freed(20, 30, kBackward);
    if (step == 0) trace.add("alloc", 60, 10, kStep);
    trace.freed(50, 10, kZero);
  }
  Snapshot s = trace.snapshot(100, {{60, false}, {10, true}, {30, false}});
  tell_from_stacks(s);
  EXPECT_EQ(3, s.phases.back().step);
  EXPECT_TRUE(s.steps_by_backward);
  EXPECT_THAT(limits_of(s, 0),
              testing::ElementsAre(
                  HasSubstr("neither stacks nor named ranges show an optimizer in every step")));
  for (const TensorLabel& one : s.labels)
    if (one.address == 50 << 20) {
      EXPECT_EQ(MemoryKind::gradients, one.kind) << "zero_grad frees it";
    }
}

/// Phase, whether it is a forward again, and the calls of modules, of a stack.
std::string facts_of(const std::vector<std::string>& frames) {
  const Snapshot s = Trace()
                         .add("segment_alloc", 0, 100, kOutside)
                         .add("alloc", 0, 20, Trace::stack(frames))
                         .snapshot(100, {{20, true}, {80, false}});
  StackReader reader(s);
  const StackFacts& facts = reader.of(s.traces[0][1].stack);
  constexpr std::array kNames{"none", "forward", "backward", "optimizer"};
  return fmt::format("{}{}{}{}", kNames[static_cast<std::size_t>(facts.phase)],
                     facts.again ? " again" : "", facts.module.empty() ? "" : ": ", facts.module);
}

TEST(Stacks, AreToldByTheInnermostFrameThatTells) {
  const std::string model = Trace::frame("/x/model.py", 88, "forward"),
                    outer = Trace::frame("/x/model.py", 40, "forward"),
                    apply = Trace::frame(kTorch + "autograd/function.py", 575, "apply"),
                    run = Trace::frame(kTorch + "autograd/graph.py", 800, "_engine_run_backward"),
                    loss = Trace::frame("/x/train.py", 20, "backward"),
                    step = Trace::frame(kTorch + "optim/adam.py", 200, "step"),
                    closure = Trace::frame("/x/lightning/closure.py", 5, "closure"),
                    unpack = Trace::frame(kTorch + "utils/checkpoint.py", 1000, "unpack_hook");
  EXPECT_EQ("forward: train.py:9 > model.py:40", facts_of({model, kCall, outer, kCall, kTrain}));
  // An autograd.Function in a forward, and the backward of one.
  const std::string within = Trace::frame("/x/ops.py", 3, "forward"),
                    back = Trace::frame("/x/ops.py", 9, "backward");
  EXPECT_EQ("forward: train.py:9", facts_of({within, apply, model, kCall, kTrain}));
  EXPECT_EQ("backward", facts_of({back, apply}));
  // torch.compile's code, in both directions.
  const std::string made = Trace::frame("/tmp/torchinductor_x/ab/cab.py", 60, "call"),
                    compiled = Trace::frame(kTorch + "_functorch/x.py", 1, "backward");
  EXPECT_EQ("forward", facts_of({made, kTrain}));
  EXPECT_EQ("backward", facts_of({made, compiled, apply}));
  // A backward that is called below a module, and a forward that a backward runs again.
  EXPECT_EQ("backward", facts_of({run, loss, kCall, kTrain}));
  EXPECT_EQ("backward again: model.py:40", facts_of({model, kCall, outer, unpack, run, kTrain}));
  const std::string library = Trace::frame("/x/deepspeed/checkpointing.py", 7, "backward");
  EXPECT_EQ("backward again: checkpointing.py:7", facts_of({model, kCall, library, apply}));
  // What an optimizer's closure runs, and its own step within it.
  EXPECT_EQ("forward: closure.py:5", facts_of({model, kCall, closure, step, kTrain}));
  EXPECT_EQ("backward", facts_of({run, closure, step, kTrain}));
  EXPECT_EQ("optimizer", facts_of({step, kTrain}));
  EXPECT_EQ("optimizer", facts_of({Trace::frame("/x/optimizers/lion.py", 4, "step"), kTrain}));
  EXPECT_EQ("none", facts_of({Trace::frame("/x/optimized/train.py", 4, "step"), kTrain}));
  EXPECT_EQ("optimizer", facts_of({made, step, kTrain})) << "a compiled step";
  EXPECT_EQ("none", facts_of({kTrain}));
}

std::vector<std::string> phases_of(const Snapshot& s) {
  std::vector<std::string> out;
  for (const ProgramPhase& one : s.phases) out.push_back(fmt::format("{} {}", one.name, one.step));
  return out;
}

TEST(Stacks, HaveStepsWhereTheProgramNamesThem) {
  // A fused optimizer allocates nothing after its first step; zero_grad frees what it has read.
  const auto trained = [](const std::string& forward, const std::string& backward) {
    Trace trace;
    trace.add("segment_alloc", 0, 100, forward);
    for (int step = 0; step < 3; ++step) {
      trace.begins("load").add("alloc", 0, 5, forward).ends("load");
      trace.add("alloc", 20, 30, forward).add("alloc", 50, 10, backward);
      trace.freed(20, 30, backward);
      trace.begins("Optimizer.step#Adam.step").ends("Optimizer.step#Adam.step");
      trace.freed(50, 10, backward).freed(0, 5, backward);
    }
    Snapshot s = trace.snapshot(100, {{100, false}});
    tell_from_stacks(s);
    return s;
  };
  Snapshot s = trained(kForward, kBackward);
  EXPECT_FALSE(s.steps_by_backward);
  EXPECT_EQ((std::vector<std::string>{"forward 1", "backward 1", "optimizer 1", "forward 2",
                                      "backward 2", "optimizer 2", "forward 3", "backward 3",
                                      "optimizer 3", "load 1", "load 2", "load 3"}),
            phases_of(s));
  EXPECT_TRUE(limits_of(s, 0).empty()) << limits_of(s, 0)[0];
  for (const TensorLabel& one : s.labels)
    if (one.address == 50 << 20) {
      EXPECT_EQ(MemoryKind::gradients, one.kind) << "outlives the step";
    }
  // Without stacks the steps are known still.
  s = trained("[]", "[]");
  EXPECT_THAT(phases_of(s), testing::IsSupersetOf({"optimizer 1", "optimizer 3"}));
  EXPECT_TRUE(s.labels.empty());
  EXPECT_THAT(
      limits_of(s, 0),
      testing::ElementsAre(HasSubstr("no stacks were recorded, so lines and kinds are not known")));
}

TEST(Stacks, TellWhatIsLeftInTheLastBackward) {
  // Memory runs out in the backward of step 2: a block as the gradient of step 1 is one, and
  // another is not.
  Snapshot s =
      Trace()
          .add("segment_alloc", 0, 100, kOutside)
          .add("alloc", 0, 30, kForward)
          .add("alloc", 50, 10, kBackward)
          .freed(0, 30, kBackward)
          .add("alloc", 60, 10, kStep)
          .add("alloc", 80, 4, kTemporary)
          .freed(80, 4, kTemporary)
          .freed(50, 10, kZero)
          .add("alloc", 0, 30, kForward)
          .add("alloc", 50, 10, kBackward)
          .add("alloc", 90, 10, kBackward)
          .freed(90, 10, kBackward)
          .add("alloc", 70, 15, kBackward)
          .add("oom", 0, 60, kBackward)
          .snapshot(100,
                    {{30, true}, {20, false}, {10, true}, {10, true}, {15, true}, {15, false}});
  tell_from_stacks(s);
  std::map<MemoryKind, Bytes> kinds;
  const auto all = analyse(s);
  for (const Part& part : all[0].oom->parts) kinds[part.kind] += part.bytes >> 20;
  EXPECT_EQ((std::map<MemoryKind, Bytes>{{MemoryKind::activations, 30},
                                         {MemoryKind::gradients, 10},
                                         {MemoryKind::backward, 15},
                                         {MemoryKind::optimizer_state, 10}}),
            kinds);
  for (const TensorLabel& one : s.labels)
    if (one.address == std::int64_t{90} << 20) {
      EXPECT_EQ(MemoryKind::backward, one.kind) << "as a gradient, but freed in the backward";
    }
}

TEST(Stacks, HaveAClosureBeforeTheStepThatRunsIt) {
  Trace trace;
  trace.add("segment_alloc", 0, 100, kOutside);
  for (int step = 0; step < 2; ++step)
    trace.begins("Optimizer.step#Adam.step")
        .add("alloc", 20, 30, kForward)
        .add("alloc", 50, 10, kBackward)
        .freed(20, 30, kBackward)
        .freed(50, 10, kZero)
        .ends("Optimizer.step#Adam.step");
  Snapshot s = trace.snapshot(100, {{100, false}});
  tell_from_stacks(s);
  EXPECT_EQ((std::vector<std::string>{"forward 1", "backward 1", "optimizer 1", "forward 2",
                                      "backward 2", "optimizer 2"}),
            phases_of(s));
}

TEST(Stacks, KnowInputsByTheFirst) {
  // Two batches without a backward: the second is in the middle of the forwards.
  const std::string loss = Trace::stack({Trace::frame("/x/train.py", 12, "main")});
  Snapshot s = Trace()
                   .add("segment_alloc", 0, 100, kOutside)
                   .add("alloc", 0, 10, kOutside)
                   .add("alloc", 20, 30, kForward)
                   .add("alloc", 60, 1, loss)
                   .freed(0, 10, kOutside)
                   .add("alloc", 0, 10, kOutside)
                   .add("alloc", 70, 30, kForward)
                   .snapshot(100, {{10, true},
                                   {10, false},
                                   {30, true},
                                   {10, false},
                                   {1, true},
                                   {9, false},
                                   {30, true}});
  tell_from_stacks(s);
  std::vector<std::string> kinds;
  for (const TensorLabel& one : s.labels) kinds.emplace_back(name_of(one.kind));
  EXPECT_EQ((std::vector<std::string>{"inputs", "activations", "other", "inputs", "activations"}),
            kinds);
}

TEST(Stacks, KnowAnInputThatABackwardFrees) {
  Snapshot s = Trace()
                   .add("segment_alloc", 0, 100, kOutside)
                   .add("alloc", 0, 10, kOutside)
                   .add("alloc", 20, 30, kForward)
                   .freed(0, 10, kOutside)
                   .add("alloc", 0, 10, kOutside)
                   .add("alloc", 60, 5, kForward)
                   .add("alloc", 70, 5, kBackward)
                   .freed(0, 10, kBackward)
                   .add("alloc", 80, 5, kBackward)
                   .snapshot(100, {{20, false},
                                   {30, true},
                                   {10, false},
                                   {5, true},
                                   {5, false},
                                   {5, true},
                                   {5, false},
                                   {5, true},
                                   {15, false}});
  tell_from_stacks(s);
  EXPECT_EQ(MemoryKind::inputs, s.labels[2].kind);
}

TEST(Stacks, TakeTheThreadsMetadataForNoModuleOfOurs) {
  Snapshot s = Trace()
                   .add("segment_alloc", 0, 100, kOutside)
                   .says("layer 3")
                   .add("alloc", 0, 20, kForward)
                   .add("alloc", 20, 20, kOutside)
                   .snapshot(100, {{20, true}, {20, true}, {60, false}});
  tell_from_stacks(s);
  const auto all = analyse(s);
  ASSERT_EQ(2u, all[0].parts.size());
  EXPECT_EQ(MemoryKind::activations, all[0].parts[0].kind);
  EXPECT_EQ("train.py:9, layer 3", all[0].parts[0].module);
  EXPECT_EQ(MemoryKind::other, all[0].parts[1].kind);
  EXPECT_EQ("layer 3", all[0].parts[1].module);
}

}  // namespace
}  // namespace tidemark
