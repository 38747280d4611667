// A harness that measures others is held to more than what it measures: nothing reads as nothing, a
// mebibyte reads as a mebibyte, and whatever is broken on purpose is found.
#include "harness/run/runner.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "harness/device/platform.h"
#include "harness/measure/recorder.h"
#include "harness/run/bracket.h"
#include "harness/testing/toy.h"
#include "harness/testing/trials.h"

namespace tidemark {
namespace {

using testing::toy_scenario;
using testing::toy_trial;
using testing::ToyFaults;

TrialRecord run(const Scenario& scenario, const Trial& trial) {
  World world;
  return run_trial(scenario, trial, world);
}

std::vector<std::string> failed(const TrialRecord& record) {
  std::vector<std::string> names;
  for (const auto& verdict : record.verdicts)
    if (verdict.status == Status::fail)
      names.push_back(verdict.variant + " " + verdict.name + ": " + verdict.why);
  return names;
}

bool fails(const TrialRecord& record, const std::string& variant, const std::string& prefix) {
  for (const auto& v : record.verdicts)
    if (v.variant == variant && v.name.starts_with(prefix) && v.status == Status::fail) return true;
  return false;
}

class Lambda final : public Program {
 public:
  explicit Lambda(std::function<void(Recorder&)> body) : body_(std::move(body)) {}
  void step(int, Recorder& recorder) override { body_(recorder); }
  std::vector<Shard> parameters() override { return {}; }

 private:
  std::function<void(Recorder&)> body_;
};

RankRecord measure(const std::function<void(Recorder&)>& body) {
  Scenario scenario;
  scenario.name = "measure";
  scenario.variants = {{"only", Role::baseline, ""}};
  scenario.make = [&](const Trial&, const Variant&, World&) {
    return std::make_unique<Lambda>(body);
  };
  scenario.forms = [](const Trial&, const Variant&, int) { return std::vector<Expectation>{}; };
  return run(scenario, {"measure", "", "instant", {}, Mode::shapes, 1, 2, 0})
      .variants.at(0)
      .ranks.at(0);
}

// holds: README.md, The suite
TEST(Null, AnEmptyStepReadsNothing) {
  auto record = measure([](Recorder& recorder) { recorder.phase("empty"); });
  for (Statistic statistic : kStatistics) {
    EXPECT_EQ((*record.phase("empty"))[statistic].peak, 0);
    EXPECT_EQ((*record.phase("empty"))[statistic].end, 0);
  }
  EXPECT_TRUE(record.categories.empty());
  EXPECT_TRUE(record.timeline.empty());
  EXPECT_EQ(record.counters.num_device_alloc, 0);
  EXPECT_EQ(record.counters.launches, 0);
  EXPECT_EQ(record.counters.synchronisations, 0);
}

TEST(Null, OneMebibyteReadsExactlyThat) {
  auto record = measure([](Recorder& recorder) {
    recorder.phase("hold");
    CategoryScope scope(MemoryKind::optimizer_temporaries);
    at::Tensor tensor =
        at::empty({1 << 20}, at::TensorOptions().device(at::kCUDA).dtype(at::kByte));
    recorder.phase("after");
  });
  const Phase& hold = *record.phase("hold");
  EXPECT_EQ(hold[Statistic::allocated].peak, 1048576);
  EXPECT_EQ(hold[Statistic::active].peak, 1048576);
  EXPECT_EQ(hold[Statistic::requested].peak, 1048576);
  EXPECT_EQ(hold[Statistic::reserved].peak, 2097152);  // a small-pool segment
  // Alive when the second phase begins, gone when the step ends.
  EXPECT_EQ(hold[Statistic::allocated].end, 1048576);
  EXPECT_EQ((*record.phase("after"))[Statistic::allocated].peak, 1048576);
  EXPECT_EQ((*record.phase("after"))[Statistic::allocated].end, 0);
  EXPECT_EQ((*record.phase("after"))[Statistic::reserved].end, 2097152);
  ASSERT_EQ(record.categories.size(), 1u);
  EXPECT_EQ(record.categories.at(MemoryKind::optimizer_temporaries).peak_share, 1048576);
  EXPECT_EQ(record.rest_after, record.rest_before);
}

TEST(Null, OneByteMoreIsOneGranuleMore) {
  auto record = measure([](Recorder& recorder) {
    recorder.phase("hold");
    at::Tensor tensor = at::empty({513}, at::TensorOptions().device(at::kCUDA).dtype(at::kByte));
  });
  EXPECT_EQ((*record.phase("hold"))[Statistic::allocated].peak, 1024);
  EXPECT_EQ((*record.phase("hold"))[Statistic::requested].peak, 513);
}

TEST(Shares, SumToThePeakWithUnsplitRemaindersToo) {
  // Blocks of 1 to 10 MiB are cut from 20 MiB segments, and a remainder of a mebibyte or less stays
  // with the block: then a block is larger than any rounding of its request.
  auto record = measure([](Recorder& recorder) {
    recorder.phase("hold");
    auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kByte);
    std::vector<at::Tensor> tensors;
    for (int i = 0; i < 9; ++i) {
      CategoryScope scope(i % 2 ? MemoryKind::activations : MemoryKind::gathered_parameters);
      tensors.push_back(at::empty({(i % 3 + 1) * 3333333}, options));
      at::Tensor passing = at::empty({123457 * (i + 1)}, options);
    }
  });
  Bytes sum = 0;
  for (const auto& [name, category] : record.categories) sum += category.peak_share;
  EXPECT_EQ(sum, (*record.phase("hold"))[Statistic::allocated].peak);
}

class Toy : public ::testing::TestWithParam<std::tuple<Mode, std::string, std::int64_t>> {};

TEST_P(Toy, PassesWhenNothingIsBroken) {
  auto [mode, schedule, n] = GetParam();
  auto record = run(toy_scenario(), toy_trial(n, mode, schedule));
  EXPECT_EQ(failed(record), std::vector<std::string>{});
  EXPECT_EQ(Report({}, {record}).exit_code(), 0);
}

INSTANTIATE_TEST_SUITE_P(Everywhere, Toy,
                         ::testing::Combine(::testing::Values(Mode::math, Mode::shapes),
                                            ::testing::Values("instant", "calibrated", "lagging"),
                                            ::testing::Values(1, 127, 128, 129, 1000, 32768)));

TEST(Mutation, AFixThatDoesNothingIsRejected) {
  auto record = run(toy_scenario({.fix_does_nothing = true}), toy_trial(1000, Mode::math));
  EXPECT_TRUE(fails(record, "in_place", "memory/form/allocated/backward"));
  EXPECT_TRUE(fails(record, "in_place", "saving/allocated/backward"));
  EXPECT_TRUE(fails(record, "in_place", "trajectory/form/after forward"));
  EXPECT_TRUE(fails(record, "in_place", "saving/trajectory/after forward"));
  EXPECT_TRUE(fails(record, "in_place", "order/copies"));
  EXPECT_FALSE(fails(record, "copy", "trajectory/"));
  EXPECT_EQ(Report({}, {record}).exit_code(), 1);
}

TEST(Mutation, AWrongGradientIsRejected) {
  auto record = run(toy_scenario({.wrong_gradient = true}), toy_trial(1000, Mode::math));
  EXPECT_TRUE(fails(record, "in_place", "parity/baseline/gradients"));
  EXPECT_TRUE(fails(record, "in_place", "parity/baseline/parameters"));
  EXPECT_FALSE(fails(record, "copy", "parity/"));
}

TEST(Mutation, ALeakOfOneTensorIsRejected) {
  auto record = run(toy_scenario({.leaks = true}), toy_trial(1000, Mode::shapes));
  EXPECT_TRUE(fails(record, "in_place", "rest/held"));
  EXPECT_FALSE(fails(record, "copy", "rest/"));
}

TEST(Skip, WithoutTheBaselineWhatDependsOnItIsNotJudged) {
  const Trial trial = toy_trial(1000, Mode::math, "lagging");
  const auto whole = run(toy_scenario(), trial);
  auto scenario = toy_scenario();
  const auto make = scenario.make;
  scenario.make = [make](const Trial& of, const Variant& variant, World& world) {
    if (variant.name == "copy") throw std::runtime_error("no room");
    return make(of, variant, world);
  };
  const auto record = run(scenario, trial);
  std::vector<std::string> before, after;
  for (const Verdict& v : whole.verdicts)
    if (v.variant == "in_place") before.push_back(v.name);
  for (const Verdict& v : record.verdicts) {
    if (v.variant != "in_place") continue;
    after.push_back(v.name);
    const bool depends = v.name.starts_with("saving/") || v.name.starts_with("parity/baseline/");
    EXPECT_EQ(v.status, depends ? Status::skip : Status::pass) << v.name;
    if (depends) {
      EXPECT_EQ(v.why, "not judged: no baseline (copy did not finish)");
      EXPECT_FALSE(v.measured);
    }
  }
  std::ranges::sort(before);
  std::ranges::sort(after);
  EXPECT_EQ(after, before) << "in the record, not absent";
  EXPECT_EQ(Report({}, {record}).exit_code(), 3);
}

TEST(Mutation, AControlThatIsRightGoesUnnoticedAndFails) {
  auto record = run(toy_scenario({.control_is_right = true}), toy_trial(1000, Mode::shapes));
  EXPECT_TRUE(fails(record, "of_a_copy", "control/memory/"));
}

TEST(Skip, AVariantLeftOutOfATrialIsCountedAsSkippedWithTheReason) {
  auto scenario = toy_scenario();
  scenario.leave_out = [](const Trial&, const Variant& variant) {
    return std::string(variant.role == Role::control ? "nothing to break here" : "");
  };
  auto record = run(scenario, toy_trial(1000, Mode::shapes));
  const auto& skipped = *std::ranges::find(record.verdicts, "of_a_copy", &Verdict::variant);
  EXPECT_EQ(skipped.status, Status::skip);
  EXPECT_EQ(skipped.why, "nothing to break here");
  EXPECT_EQ(Report({}, {record}).exit_code(), 0);
}

TEST(Mutation, ABoundAThousandTimesTooWideIsRefused) {
  auto sharp = run(toy_scenario({.slack = 500}), toy_trial(1000, Mode::shapes));
  EXPECT_FALSE(fails(sharp, "in_place", "memory/form/allocated/backward"));
  auto wide = run(toy_scenario({.slack = 4 * 1000 * 1000}), toy_trial(1000, Mode::shapes));
  EXPECT_TRUE(fails(wide, "in_place", "memory/form/allocated/backward"));
}

// Three trials that differ in the schedule alone, with these peaks of requested bytes.
std::vector<TrialRecord> three(Bytes instant, Bytes calibrated, Bytes lagging) {
  std::vector<TrialRecord> trials;
  for (const auto& [schedule, peak] :
       {std::pair("instant", instant), {"calibrated", calibrated}, {"lagging", lagging}}) {
    Phase phase{"forward", {}};
    phase[Statistic::requested].peak = peak;
    RankRecord record;
    record.steps.push_back({{phase}, {}, {}});
    TrialRecord trial;
    trial.schedule = schedule;
    trial.variants.push_back({"copy", Role::baseline, "", {}, {}, {record}, {}, {}, {}});
    trials.push_back(trial);
  }
  judge_brackets(trials);
  return trials;
}

TEST(Bracket, ACalibratedPeakLiesBetweenTheClocklessOnes) {
  EXPECT_EQ(three(10, 10, 10)[1].verdicts.at(0).status, Status::pass);
  EXPECT_EQ(three(10, 11, 12)[1].verdicts.at(0).status, Status::pass);
  EXPECT_EQ(three(10, 9, 12)[1].verdicts.at(0).status, Status::fail);
  EXPECT_EQ(three(10, 13, 12)[1].verdicts.at(0).status, Status::fail);
  EXPECT_TRUE(three(10, 11, 12)[0].verdicts.empty());
  auto other = three(10, 11, 12);
  other[1].verdicts.clear();
  other[2].params["n"] = 1;  // another trial: nothing to compare with
  judge_brackets(other);
  EXPECT_TRUE(other[1].verdicts.empty());
}

TEST(Mutation, NothingJudgedIsNoSuccess) {
  EXPECT_EQ(Report().exit_code(), 4);
  EXPECT_EQ(Report({}, {TrialRecord{}}).exit_code(), 4);
}

TrialRecord run_and_grow(const Scenario& scenario) {
  World world;
  RunOptions options;
  options.growth = true;
  return run_trial(scenario, toy_trial(1000, Mode::math), world, options);
}

TEST(Growth, FollowsTheClosedFormsFromHalfToTwice) {
  const auto record = run_and_grow(toy_scenario());
  EXPECT_THAT(failed(record), ::testing::IsEmpty());
  ASSERT_EQ(record.variants[0].growth.size(), 1u);
  EXPECT_EQ(record.variants[1].growth.size(), 1u);
  EXPECT_TRUE(record.variants[2].growth.empty());  // the control
  const Growth& curve = record.variants[0].growth[0];
  EXPECT_EQ(curve.parameter, "n");
  ASSERT_EQ(curve.points.size(), 9u);
  const auto block = [](Bytes bytes) { return (bytes + 511) / 512 * 512; };
  // Between steps: w, two moments, answers of 4 rows, and cuBLAS's workspaces, whatever the size.
  const Bytes workspaces = record.variants[0].ranks.at(0).rest_before - 3 * 4 * 1000 - 4 * 4;
  EXPECT_GT(workspaces, 0);
  for (const GrowthPoint& point : curve.points) {
    const Bytes w = block(4 * point.value), batches = 2 * block(4 * 4 * point.value);
    const Bytes rest = workspaces + 3 * w + 512;
    EXPECT_EQ(point.predicted.allocated, rest + batches + 2 * w + 2 * 512) << point.value;
    EXPECT_EQ(point.predicted.resident, rest + batches + 3 * 512) << point.value;
    EXPECT_EQ(point.predicted.reserved, std::nullopt) << "no closed form of it";
    const bool measured = point.value == 500 || point.value == 1000 || point.value == 2000;
    EXPECT_EQ(point.measured, measured ? point.predicted : Peaks{}) << point.value;
  }
}

TEST(Growth, FindsAFormThatIsRightForOneSizeAlone) {
  Scenario scenario = toy_scenario();
  scenario.forms = [right = scenario.forms](const Trial& trial, const Variant& variant, int rank) {
    Trial one = trial;
    one.params.at("n") = 1000;
    return right(one, variant, rank);
  };
  const auto record = run_and_grow(scenario);
  EXPECT_TRUE(fails(record, "copy", "memory/growth/n"));
  EXPECT_FALSE(fails(record, "copy", "memory/form/allocated"));
}

// Of forms that say nothing of what is reserved, half of the capacity may be allocated.
TEST(Growth, LeavesOutWhatTheDeviceCannotHold) {
  set_capacity(256 << 20);
  for (const char* too_much : {"2^40", "2^27 + 1"}) {
    Scenario scenario = toy_scenario();
    scenario.forms = [too_much, right = scenario.forms](const Trial& trial, const Variant& variant,
                                                        int rank) {
      auto forms = right(trial, variant, rank);
      if (trial["n"] > 1000)
        for (auto& form : forms) form.formula = {too_much, {}};
      return forms;
    };
    const auto record = run_and_grow(scenario);
    EXPECT_THAT(failed(record), ::testing::IsEmpty()) << too_much;
    for (const GrowthPoint& point : record.variants[0].growth.at(0).points)
      EXPECT_EQ(point.measured.allocated.has_value(), point.value == 500 || point.value == 1000)
          << too_much << ", " << point.value;
  }
  set_capacity(0);
}

}  // namespace
}  // namespace tidemark
