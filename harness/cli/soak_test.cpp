// A long run leaves nothing behind: training steps of every scenario, 12 of each here, as many as
// TIDEMARK_SOAK_STEPS says in ci/soak. First the same program for all of them, so that what a step
// leaves shows; then trials anew, so that what making and ending them leaves shows. Host memory,
// file descriptors, threads, device memory and CUDA's handles are as many at the end as they were
// once everything had been used.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <dlfcn.h>
#include <gtest/gtest.h>
#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/measure/recorder.h"
#include "harness/ranks/leave.h"
#include "harness/run/runner.h"
#include "harness/run/variant.h"
#include "harness/testing/ranks.h"
#include "harness/virtual/device/control.h"

namespace tidemark {
namespace {

constexpr int kEach = 3;  // steps between two readings
// Bytes by which the arenas of malloc differ from reading to reading: up to one MiB, up or down,
// after 20 steps as after 300. Over the 1,500 steps between the readings of ci/soak it is 3 KB a
// step.
constexpr std::int64_t kNoise = 4 << 20;

int steps() {
  const char* asked = std::getenv("TIDEMARK_SOAK_STEPS");
  return asked != nullptr ? std::atoi(asked) : 12;
}

struct Reading {
  std::int64_t resident = 0;                   // bytes of host memory
  std::map<std::string, std::int64_t> counts;  // none of them may grow
};

std::int64_t count(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder), {});
}

Reading read() {
  malloc_trim(0);
  Reading now;
  std::int64_t pages = 0;
  std::ifstream("/proc/self/statm") >> pages >> pages;
  now.resident = pages * sysconf(_SC_PAGESIZE);
  now.counts = {{"files", count("/proc/self/fd")}, {"threads", count("/proc/self/task")}};
  const auto describe = reinterpret_cast<decltype(&tidemark_device_describe)>(
      dlsym(RTLD_DEFAULT, "tidemark_device_describe"));
  std::string text(describe(nullptr, 0) + 1, '\0');
  describe(text.data(), text.size());
  const auto device = nlohmann::json::parse(text.c_str());
  for (const char* name : {"used_bytes", "allocations", "streams", "events"})
    now.counts[name] = device[name];
  return now;
}

void expect_same(const Reading& before, const Reading& after, std::int64_t host_growth,
                 const std::string& what) {
  const std::int64_t growth = after.resident - before.resident;
  std::string counts;
  for (const auto& [name, count] : after.counts) {
    EXPECT_LE(count, before.counts.at(name)) << what << ": " << name;
    counts += ", " + std::to_string(count) + " " + name;
  }
  if (!kSanitized) EXPECT_LE(growth, host_growth) << what << ": bytes of host memory";
  std::printf("%s: host memory %+lld bytes (of %lld)%s\n", what.c_str(),
              static_cast<long long>(growth), static_cast<long long>(after.resident),
              counts.c_str());
}

Trial trial_of(const Scenario& scenario, const World& world, int number) {
  return {scenario.name, scenario.sizes.front().name,
          "lagging",     scenario.sizes.front().params,
          Mode::math,    world.size(),
          number,        1};
}

bool fits(const Scenario& scenario, const Trial& trial) {
  return why_unfit(scenario, trial).empty();
}

const Variant& with_role(const Scenario& scenario, Role role) {
  return *std::ranges::find(scenario.variants, role, &Variant::role);
}

// The device at rest: what the allocator keeps has gone back.
Reading at_rest(const Trial& trial) {
  prepare_device(trial);
  return read();
}

void run_steps(const Scenario& scenario, Trial trial, const Variant& variant, World& world) {
  constexpr int kEventsOfAStep = 2;  // between which the recorder times it, until it is finished
  Reading early, late;
  prepare_device(trial);
  trial.steps = std::max(4, steps() / kEach) * kEach;
  {
    Recorder recorder(trial);
    auto program = scenario.make(trial, variant, world);
    const int blocks = trial.steps / kEach;
    for (int block = 0; block < blocks; ++block) {
      for (int step = block * kEach; step < (block + 1) * kEach; ++step) {
        recorder.begin_step(step);
        program->step(step, recorder);
        recorder.end_step();
      }
      c10::cuda::device_synchronize();
      if (block == blocks / 4) early = read();
    }
    late = read();
    early.counts["events"] += kEventsOfAStep * kEach * (blocks - 1 - blocks / 4);
    recorder.finish();
  }
  expect_same(early, late, kNoise, scenario.name + " " + variant.name + ", steps");
}

// By name, so that one of them can be soaked alone (--gtest_filter='*frozen_reshard').
class Soak : public ::testing::TestWithParam<std::string> {
 protected:
  Soak() {
    at::globalContext().lazyInitDevice(at::kCUDA);
    at::set_num_threads(1);
  }
  const std::vector<Scenario> all = scenarios();
  const Scenario& scenario = *std::ranges::find(all, GetParam(), &Scenario::name);
};

TEST_P(Soak, StepsLeaveNothing) {
  World& world = testing::world();
  const Trial trial = trial_of(scenario, world, kEach);
  if (!fits(scenario, trial)) GTEST_SKIP() << "not on " << world.size() << " ranks";
  for (const Role role : {Role::baseline, Role::fixed})
    run_steps(scenario, trial, with_role(scenario, role), world);
  RecordProperty("cases", 2 * std::max(4 * kEach, steps()));
}

TEST_P(Soak, TrialsLeaveNothing) {
  World& world = testing::world();
  const Trial trial = trial_of(scenario, world, 2);
  if (!fits(scenario, trial)) GTEST_SKIP() << "not on " << world.size() << " ranks";
  RunOptions options;
  options.selected = [&](const Variant& v) {
    return v.name == with_role(scenario, Role::baseline).name ||
           v.name == with_role(scenario, Role::fixed).name;
  };
  const int rounds = std::max(3, steps() / 20);
  Reading early;
  for (int round = 0; round < rounds; ++round) {
    for (const auto& verdict : run_trial(scenario, trial, world, options).verdicts)
      EXPECT_NE(verdict.status, Status::fail) << verdict.name << ": " << verdict.why;
    if (round == rounds / 4) early = at_rest(trial);
  }
  // A communicator's handle stays valid memory for ever: a use after its end is an error.
  expect_same(early, at_rest(trial), kNoise + rounds * 4096, scenario.name + ", trials");
}

std::vector<std::string> names() {
  std::vector<std::string> all;
  for (const Scenario& each : scenarios()) all.push_back(each.name);
  return all;
}

INSTANTIATE_TEST_SUITE_P(Of, Soak, ::testing::ValuesIn(names()),
                         [](const auto& one) { return one.param; });

}  // namespace
}  // namespace tidemark
