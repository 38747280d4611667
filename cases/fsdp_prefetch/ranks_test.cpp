// The same training on 1, 2 and 4 ranks: each is within the reference's tolerance of the exact
// result, so any two are within twice that of each other, in every loss, gradient and parameter.
#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstring>

#include "cases/fsdp_prefetch/policy.h"
#include "harness/judge/parity.h"
#include "harness/measure/recorder.h"
#include "harness/run/variant.h"

namespace tidemark {
Scenario fsdp_prefetch_scenario();

namespace fsdp_prefetch {
namespace {

struct Outcome {
  std::vector<LossPoint> loss;
  std::map<std::string, std::map<std::int64_t, std::vector<double>>> gradients, parameters;
};

// A line a shard: name, offset, and the values as hexadecimal floats.
std::string packed(const std::vector<Shard>& shards) {
  std::string text;
  for (const Shard& shard : shards) {
    const at::Tensor values = shard.values.detach().to(at::kCPU, at::kDouble).contiguous();
    text += shard.name + " " + std::to_string(shard.offset) + " " + std::to_string(values.numel());
    char number[40];
    for (std::int64_t i = 0; i < values.numel(); ++i) {
      std::snprintf(number, sizeof number, " %a", values.const_data_ptr<double>()[i]);
      text += number;
    }
    text += "\n";
  }
  return text;
}
void unpack(const std::string& text, decltype(Outcome::gradients)& into) {
  std::istringstream stream(text);
  std::string name, number;
  std::int64_t offset = 0, count = 0;
  while (stream >> name >> offset >> count) {
    auto& values = into[name][offset];
    for (std::int64_t i = 0; i < count; ++i) {
      stream >> number;
      values.push_back(std::strtod(number.c_str(), nullptr));
    }
  }
}
std::vector<Shard> whole(const decltype(Outcome::gradients)& parts) {
  std::vector<Shard> all;
  for (const auto& [name, shards] : parts) {
    std::vector<double> values;
    for (const auto& [offset, part] : shards) {
      EXPECT_EQ(offset, static_cast<std::int64_t>(values.size())) << name << ": a gap";
      values.insert(values.end(), part.begin(), part.end());
    }
    all.push_back({name, 0, at::tensor(values, at::kDouble)});
  }
  return all;
}

Outcome train(const Trial& trial, World& world) {
  const auto scenario = fsdp_prefetch_scenario();
  const auto& variants = scenario.variants;
  const auto stash = std::ranges::find(variants, "stash", &Variant::name);
  prepare_device(trial);
  Outcome outcome;
  Recorder recorder(trial);
  std::vector<Shard> parameters;
  {
    auto program = scenario.make(trial, *stash, world);
    for (int step = 0; step < trial.steps; ++step) {
      recorder.begin_step(step);
      program->step(step, recorder);
      recorder.end_step();
    }
    recorder.finish();
    for (auto& shard : program->parameters())
      parameters.push_back({shard.name, shard.offset, shard.values.detach().cpu()});
  }
  outcome.loss = recorder.losses;
  for (const auto& text : world.gather(packed(recorder.first_gradients)))
    unpack(text, outcome.gradients);
  for (const auto& text : world.gather(packed(parameters))) unpack(text, outcome.parameters);
  return outcome;
}

TEST(Ranks, OneTwoAndFourAgreeWithinTwiceTheErrorModel) {
  World all(MPI_COMM_WORLD);
  ASSERT_EQ(all.size(), 4);
  for (const std::int64_t hidden : {48, 37}) {
    Trial trial{"fsdp_prefetch",
                "smoke",
                "lagging",
                {{"layers", 3},
                 {"hidden", hidden},
                 {"batch", 16},
                 {"precision", 0},
                 {"reshard_after_forward", 1}},
                Mode::math,
                1,
                4,
                7};
    std::map<int, Outcome> outcomes;
    for (const int ranks : {1, 2, 4}) {
      trial.ranks = ranks;
      if (auto some = all.first(ranks)) outcomes[ranks] = train(trial, *some);
      all.barrier();
    }
    if (!all.leads()) continue;
    trial.ranks = 1;
    const Oracle exact = fsdp_prefetch_scenario().reference(trial);
    const double allowed = 2 * exact.tolerance;
    for (const auto& [ranks, outcome] : outcomes) {
      if (ranks == 1) continue;
      const auto& one = outcomes[1];
      ASSERT_EQ(outcome.loss.size(), 4u);
      const double loss = compare_losses(outcome.loss, one.loss).relative;
      const auto gradients =
          compare_shards("gradient", whole(outcome.gradients), whole(one.gradients));
      const auto parameters =
          compare_shards("parameter", whole(outcome.parameters), whole(one.parameters));
      std::printf(
          "hidden %lld, %d ranks against 1: loss %.2e, gradients %.2e, parameters %.2e, "
          "allowed %.2e\n",
          static_cast<long long>(hidden), ranks, loss, gradients.relative, parameters.relative,
          allowed);
      EXPECT_LE(loss, allowed * exact.loss_condition);
      EXPECT_LE(gradients.relative, allowed) << gradients.worst;
      EXPECT_LE(parameters.relative, allowed) << parameters.worst;
      // Not the same computation by accident: another order of summation shows.
      EXPECT_GT(gradients.relative, 0);
    }
  }
}

}  // namespace
}  // namespace fsdp_prefetch
}  // namespace tidemark
