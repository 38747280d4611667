// The code that runs on a GPU, on the virtual device: its three schedules are what they say, and
// the two ends are those of the virtual device's own schedules.
#include <ATen/ATen.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/device/arithmetic.h"
#include "harness/device/devices.h"
#include "harness/device/gpu_schedules.h"
#include "harness/device/platform.h"
#include "harness/measure/recorder.h"
#include "harness/testing/toy.h"
#include "harness/testing/trials.h"

namespace tidemark {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr Bytes kBuffer = 32 << 20;
constexpr int kBuffers = 4, kSteps = 3;

TrialRecord run(const Scenario& scenario, const Trial& trial) {
  World world;
  return run_trial(scenario, trial, world);
}

/// Gives buffers away that a side stream still works on: how many are active at once is a matter of
/// who is faster.
class SideStream final : public Program {
 public:
  explicit SideStream(bool waits) : waits_(waits) {}
  void step(int, Recorder& recorder) override {
    recorder.phase("step");
    for (int i = 0; i < kBuffers; ++i) {
      at::Tensor buffer =
          at::empty({kBuffer}, at::TensorOptions().device(at::kCUDA).dtype(at::kByte));
      {
        const c10::cuda::CUDAStreamGuard guard(side_);
        for (int pass = 0; pass < 8; ++pass) buffer.add_(1);
      }
      c10::cuda::CUDACachingAllocator::recordStream(buffer.storage().data_ptr(), side_);
    }
    if (waits_) c10::cuda::device_synchronize();
  }
  std::vector<Shard> parameters() override { return {}; }

 private:
  c10::cuda::CUDAStream side_ = c10::cuda::getStreamFromPool(false);
  bool waits_;
};

Scenario side_stream(bool waits) {
  Scenario scenario;
  scenario.name = "side_stream";
  scenario.variants = {{"recorded", Role::baseline, ""}, {"too", Role::fixed, ""}};
  scenario.make = [=](const Trial&, const Variant&, World&) {
    return std::make_unique<SideStream>(waits);
  };
  scenario.forms = [](const Trial& trial, const Variant&, int) -> std::vector<Expectation> {
    if (trial.schedule == "device") return {};
    const double buffers = trial.schedule == "instant" ? 1 : kBuffers * kSteps;
    return {{Statistic::active, "step", {"n*B", {{"n", buffers}, {"B", double{kBuffer}}}}}};
  };
  return scenario;
}

Trial trial(const std::string& schedule) {
  return {"side_stream", "", schedule, {}, Mode::shapes, 1, kSteps, 0};
}

// holds: harness/README.md, On a GPU
TEST(Rehearsal, CannotPassForHardware) {
  EXPECT_EQ(platform().kind(), "cuda");
  EXPECT_THAT(platform().profile(), StartsWith("rehearsal on the virtual device "));
  EXPECT_EQ(platform_schedules(), (std::vector<std::string>{"device", "instant", "lagging"}));
  EXPECT_THROW(platform().begin("calibrated", Mode::shapes), std::invalid_argument);
}

TEST(Rehearsal, TheEndsAreThoseOfTheClosedForms) {
  for (const char* schedule : {"instant", "lagging"}) {
    const auto record = run(side_stream(false), trial(schedule));
    const auto& rank = record.variants.at(0).ranks.at(0);
    const Bytes buffers = std::string(schedule) == "instant" ? 1 : kBuffers * kSteps;
    EXPECT_EQ(rank.unheld, "");
    EXPECT_EQ((*rank.phase("step"))[Statistic::active].peak, buffers * kBuffer) << schedule;
    EXPECT_TRUE(record.variants.at(0).step_time_ns.empty()) << "a time that the schedule has made";
    for (const auto& verdict : record.verdicts)
      if (verdict.name.starts_with("memory/"))
        EXPECT_EQ(verdict.status, Status::pass) << verdict.name << ": " << verdict.why;
  }
}

TEST(Rehearsal, OnItsOwnTimeADeviceIsInBetween) {
  const auto record = run(side_stream(false), trial("device"));
  const auto active = (*record.variants.at(0).ranks.at(0).phase("step"))[Statistic::active].peak;
  EXPECT_GT(active, kBuffer);
  EXPECT_LT(active, kBuffers * kSteps * kBuffer);
  ASSERT_EQ(record.variants.at(0).step_time_ns.size(), std::size_t{kSteps});
  for (Ns time : record.variants.at(0).step_time_ns) EXPECT_GT(time, 0);
}

TEST(Rehearsal, WhereTheHostWaitsLaggingIsNoEndAndSaysSo) {
  const auto record = run(side_stream(true), trial("lagging"));
  EXPECT_THAT(record.variants.at(0).ranks.at(0).unheld, HasSubstr("no bound for lagging"));
  int skipped = 0;
  for (const auto& verdict : record.verdicts) {
    EXPECT_NE(verdict.status, Status::fail) << verdict.name << ": " << verdict.why;
    if (verdict.name != "memory/form/active/step" && !verdict.name.starts_with("saving/")) continue;
    EXPECT_EQ(verdict.status, Status::skip) << verdict.name;
    EXPECT_THAT(verdict.why, HasSubstr("no bound for lagging"));
    ++skipped;
  }
  EXPECT_EQ(skipped, 5);  // memory of both; the saving by phase, the largest and that of the step
}

TEST(Rehearsal, TheToyPassesUnderEverySchedule) {
  for (const auto& schedule : platform_schedules()) {
    const auto record =
        run(testing::toy_scenario(), testing::toy_trial(1000, Mode::math, schedule));
    for (const auto& verdict : record.verdicts)
      EXPECT_NE(verdict.status, Status::fail)
          << schedule << " " << verdict.variant << " " << verdict.name << ": " << verdict.why;
  }
}

TEST(Arithmetic, Fp32IsFp32OrItIsSaid) {
  auto& torch = at::globalContext();
  unsetenv("NVIDIA_TF32_OVERRIDE");
  torch.setAllowTF32CuBLAS(true);
  EXPECT_THAT(arithmetic().text, HasSubstr("TF32 on"));
  EXPECT_THAT(arithmetic_fault(), HasSubstr("come out rounded to TF32"));
  set_arithmetic();
  EXPECT_EQ(arithmetic_fault(), "");
  EXPECT_THAT(arithmetic().text,
              HasSubstr("TF32 off, products of 16-bit numbers added up in fp32"));
  EXPECT_TRUE(arithmetic().exact);
  for (const char* fine : {"0", ""}) {
    setenv("NVIDIA_TF32_OVERRIDE", fine, 1);
    EXPECT_EQ(arithmetic_fault(), "");
  }
  setenv("NVIDIA_TF32_OVERRIDE", "1", 1);
  EXPECT_THAT(arithmetic_fault(), HasSubstr("NVIDIA_TF32_OVERRIDE=1"));
  unsetenv("NVIDIA_TF32_OVERRIDE");
  torch.setAllowTF32CuDNN(true);
  EXPECT_THAT(arithmetic().text, HasSubstr("TF32 on"));
  set_arithmetic();
  torch.setAllowBF16ReductionCuBLAS(true);
  EXPECT_THAT(arithmetic().text, HasSubstr("in 16 bits in part"));
  set_arithmetic();
}

TEST(Devices, RanksShareWhereTheirGpuIsTheSame) {
  using Groups = std::vector<std::vector<int>>;
  EXPECT_EQ(sharing({"a", "b", "c"}), Groups{});
  EXPECT_EQ(sharing({"", "", ""}), Groups{}) << "devices of their own";
  EXPECT_EQ(sharing({"b", "a", "b", "a", "c"}), (Groups{{0, 2}, {1, 3}}));
}

TEST(Hold, IsOverWhenItsTimeIs) {
  platform().begin("device", Mode::shapes);
  const Hold hold(1'000'000);
  EXPECT_TRUE(hold.holds());
  const Ns before = platform().now();
  c10::cuda::device_synchronize();
  EXPECT_FALSE(hold.holds());
  const Ns slept = platform().now() - before;
  EXPECT_GT(slept, 500'000);
  EXPECT_LT(slept, 2'000'000);
}

TEST(Hold, IsBounded) {
  platform().begin("device", Mode::shapes);
  const Hold hold(100 * Hold::kLongest);
  const Ns before = platform().now();
  c10::cuda::device_synchronize();
  EXPECT_LT(platform().now() - before, 2 * Hold::kLongest);
}

TEST(Hold, LeavesTheNextProgramTheSameStreams) {
  platform().begin("device", Mode::shapes);
  const Hold first(1000);  // the pools are counted
  const auto before = c10::cuda::getStreamFromPool(false),
             high = c10::cuda::getStreamFromPool(true);
  const Hold hold(1000);
  std::size_t turn = 1;
  while (c10::cuda::getStreamFromPool(false) != before) ++turn;
  EXPECT_EQ(turn % 32, 0u);
  turn = 1;
  while (c10::cuda::getStreamFromPool(true) != high) ++turn;
  EXPECT_EQ(turn % 32, 0u);
}

}  // namespace
}  // namespace tidemark
