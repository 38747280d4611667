// What is said of a foreign snapshot: kinds and phases by its stacks, the requests of its program,
// and edits of them.
#include "reports/program/explanation.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gmock/gmock.h>

#include "harness/memory/edit.h"
#include "harness/memory/parts.h"
#include "harness/memory/stack_phases.h"
#include "harness/memory/workload.h"

namespace tidemark {
namespace {

using ::testing::HasSubstr;

/// A trace, written event by event; addresses are in MiB, and sizes.
class Trace {
 public:
  static std::string frame(const std::string& file, int line, const std::string& function) {
    return fmt::format(R"({{"filename":"{}","line":{},"name":"{}"}})", file, line, function);
  }
  static std::string stack(const std::vector<std::string>& frames) {
    return fmt::format("[{}]", fmt::join(frames, ","));
  }

  Trace& add(const std::string& action, int address, int size, const std::string& stack) {
    const bool oom = action == "oom";
    events_.push_back(fmt::format(R"({{"action":"{}","{}":{},"size":{},"stream":0,"frames":{}}})",
                                  action, oom ? "device_free" : "addr", std::int64_t{address} << 20,
                                  std::int64_t{size} << 20, stack));
    return *this;
  }
  /// A block that is freed and given back at once.
  Trace& freed(int address, int size, const std::string& stack) {
    return add("free_requested", address, size, stack).add("free_completed", address, size, stack);
  }
  /// `segment`: MiB from address 0 on, and the blocks at the end: (size, allocated).
  Snapshot snapshot(int segment, const std::vector<std::pair<int, bool>>& blocks) const {
    std::vector<std::string> texts;
    int at = 0;
    for (const auto& [size, allocated] : blocks) {
      texts.push_back(
          fmt::format(R"({{"size":{},"requested_size":{},"address":{},"state":"{}","frames":[]}})",
                      std::int64_t{size} << 20, std::int64_t{size} << 20, std::int64_t{at} << 20,
                      allocated ? "active_allocated" : "inactive"));
      at += size;
    }
    return parse_snapshot(
        fmt::format(R"({{"segments":[{{"address":0,"total_size":{},"stream":0,)"
                    R"("segment_type":"large","blocks":[{}]}}],"device_traces":[[{}]]}})",
                    std::int64_t{segment} << 20, fmt::join(texts, ","), fmt::join(events_, ",")),
        "sample");
  }

 private:
  std::vector<std::string> events_;
};

const std::string kTorch = "/x/site-packages/torch/";
const std::string
    kCall = Trace::frame(kTorch + "nn/modules/module.py", 1775, "_wrapped_call_impl"),
    kTrain = Trace::frame("/x/train.py", 9, "main"),
    kForward = Trace::stack({Trace::frame("/x/model.py", 88, "forward"), kCall, kTrain}),
    kBackward =
        Trace::stack({Trace::frame("engine.cpp", 0, "torch::autograd::Engine::evaluate_function")}),
    kStep = Trace::stack({Trace::frame(kTorch + "optim/adam.py", 100, "_init_group"),
                          Trace::frame(kTorch + "optim/adam.py", 200, "step"), kTrain}),
    kTemporary = Trace::stack({Trace::frame(kTorch + "optim/adam.py", 300, "step"), kTrain}),
    kOutside = Trace::stack({kTrain}),
    kZero = Trace::stack({Trace::frame(kTorch + "optim/optimizer.py", 9, "zero_grad"), kTrain}),
    kEmpty = Trace::stack({Trace::frame(kTorch + "cuda/memory.py", 9, "empty_cache"), kTrain});

/// A step: 30 MiB of activations, 10 of a gradient, 10 of state, temporaries of 5 in the backward
/// and in the optimizer; then memory runs out in the forward of the second step.
Snapshot sample() {
  return Trace()
      .add("segment_alloc", 0, 100, kOutside)
      .add("alloc", 0, 20, kOutside)
      .add("alloc", 20, 30, kForward)
      .add("alloc", 50, 10, kBackward)
      .add("alloc", 60, 5, kBackward)
      .freed(60, 5, kBackward)
      .freed(20, 30, kBackward)
      .add("alloc", 60, 10, kStep)
      .add("alloc", 70, 5, kTemporary)
      .freed(70, 5, kTemporary)
      .freed(50, 10, kZero)
      .add("alloc", 20, 30, kForward)
      .add("oom", 7, 60, kForward)
      .snapshot(100, {{20, true}, {30, true}, {10, false}, {10, true}, {30, false}});
}

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
              testing::ElementsAre(HasSubstr("the stacks show no optimizer in every step")));
  for (const TensorLabel& one : s.labels)
    if (one.address == 50 << 20) {
      EXPECT_EQ(MemoryKind::gradients, one.kind) << "zero_grad frees it";
    }
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
              HasSubstr("the history has its last 15 events alone: 20 MiB were there before"));
  Snapshot bare = sample();
  for (AllocatorEvent& event : bare.traces[0]) event.stack = 0;
  EXPECT_THAT(explanation(explain(bare, "a", {}, false))[0], HasSubstr("no stacks were recorded"));
}

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
  EXPECT_EQ(
      (std::vector<std::string>{"take 20", "take 30", "back 30", "take 10", "take 5", "back 5",
                                "take 10", "take 5", "back 5", "back 10", "take 30", "refused 60"}),
      edited("model.py:88 until backward"));
  EXPECT_THROW(edited("model.py:89 x0.5"), SnapshotError);
  EXPECT_THROW(edited("odel.py:88 x0.5"), SnapshotError);
  for (const char* wrong : {"model.py x0.5", "model.py:88", "model.py:88 x0", "model.py:88 xnan",
                            ":88 x2", "model.py:88 until forward", "model.py:-1 x2", ""})
    EXPECT_THROW(parse_edit(wrong), std::runtime_error) << wrong;
}

}  // namespace
}  // namespace tidemark
