// `tidemark bench --self`: what one operator costs on the plain CPU, in shapes and in math;
// starting; a step of every scenario's baseline at size smoke; a Llama-3-70B-shaped forward and
// backward.
#include <ATen/ATen.h>
#include <benchmark/benchmark.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <string>

#include "harness/cli/bench.h"
#include "harness/cli/llama.h"
#include "harness/device/platform.h"
#include "harness/measure/recorder.h"
#include "harness/run/variant.h"

extern char** environ;

namespace tidemark {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

struct Operator {
  const char* name;
  at::Tensor (*call)(at::Tensor& x, const at::Tensor& y);
};

const Operator kOperators[] = {
    {"add_", [](at::Tensor& x, const at::Tensor& y) { return x.add_(y); }},
    {"mm", [](at::Tensor& x, const at::Tensor& y) { return at::mm(x, y); }},
    {"gelu", [](at::Tensor& x, const at::Tensor&) { return at::gelu(x); }},
    {"softmax", [](at::Tensor& x, const at::Tensor&) { return at::softmax(x, -1); }},
};

void run_operator(benchmark::State& state, const Operator& op, at::Device device, Mode mode) {
  at::NoGradGuard no_grad;
  set_race_detection(false);
  if (device.is_cuda()) platform().begin(platform_schedules().front(), mode);
  at::Tensor x = at::ones({4, 4}, device), y = at::ones({4, 4}, device);
  for (auto _ : state) benchmark::DoNotOptimize(op.call(x, y));
}

void register_operators() {
  for (const auto& op : kOperators) {
    const std::string name = std::string("operator/") + op.name + "/4x4/";
    benchmark::RegisterBenchmark((name + "cpu").c_str(), run_operator, op, at::Device(at::kCPU),
                                 Mode::math);
    benchmark::RegisterBenchmark((name + "shapes").c_str(), run_operator, op,
                                 at::Device(at::kCUDA, 0), Mode::shapes);
    benchmark::RegisterBenchmark((name + "math").c_str(), run_operator, op,
                                 at::Device(at::kCUDA, 0), Mode::math);
  }
}

// The whole program from nothing: loader, libtorch, virtual device, first answer.
void run_start(benchmark::State& state) {
  const char* argv[] = {"tidemark", "--version", nullptr};
  for (auto _ : state) {
    posix_spawn_file_actions_t quiet;
    posix_spawn_file_actions_init(&quiet);
    posix_spawn_file_actions_addopen(&quiet, 1, "/dev/null", 1, 0);
    pid_t pid = 0;
    int status = 1;
    if (posix_spawn(&pid, "/proc/self/exe", &quiet, nullptr, const_cast<char**>(argv), environ) !=
            0 ||
        waitpid(pid, &status, 0) < 0 || status != 0)
      state.SkipWithError("tidemark --version failed");
    posix_spawn_file_actions_destroy(&quiet);
  }
}

constexpr int kStepsBefore = 1, kSteps = 2;

void run_step(benchmark::State& state, const Scenario& scenario, const Variant& variant,
              Trial trial, World& world) {
  trial.steps = kStepsBefore + kSteps;
  set_race_detection(true);  // as in a run
  prepare_device(trial);
  Recorder recorder(trial, /*closely=*/false);
  auto program = scenario.make(trial, variant, world);
  int index = 0;
  auto step = [&] {
    recorder.begin_step(index);
    program->step(index++, recorder);
    recorder.end_step();
  };
  while (index < kStepsBefore) step();
  for (auto _ : state) step();
  recorder.finish();
}

void register_steps(World& world) {
  for (const auto& scenario : scenarios()) {
    const auto& size = scenario.sizes.front();
    const auto baseline = std::ranges::find(scenario.variants, Role::baseline, &Variant::role);
    for (Mode mode : {Mode::shapes, Mode::math}) {
      const Trial trial{scenario.name, size.name, platform_schedules().front(), size.params, mode};
      const std::string name =
          "step/" + scenario.name + "/" + baseline->name + "/" + size.name + "/r1/" + name_of(mode);
      benchmark::RegisterBenchmark(
          name.c_str(),
          [&scenario, &baseline = *baseline, trial, &world](benchmark::State& state) {
            run_step(state, scenario, baseline, trial, world);
          })
          ->Iterations(kSteps)
          ->Unit(benchmark::kMillisecond);
    }
  }
}

void run_llama(benchmark::State& state, bool races) {
  set_race_detection(races);
  platform().begin(platform_schedules().front(), Mode::shapes);
  if (!set_capacity(Bytes{4} << 40)) {
    state.SkipWithError("needs 421 GiB: the virtual device");
    return;
  }
  {
    Llama70B model;
    model.step();
    allocator::resetPeakStats(0);
    for (auto _ : state) model.step();
    auto stats = allocator::getDeviceStats(0);
    state.counters["allocated_peak"] = static_cast<double>(stats.allocated_bytes[0].peak);
    state.counters["reserved_peak"] = static_cast<double>(stats.reserved_bytes[0].peak);
  }
  allocator::emptyCache();
  set_capacity(0);
}

}  // namespace

void register_self(World& world) {
  register_operators();
  benchmark::RegisterBenchmark("start", run_start)
      ->Iterations(5)
      ->Unit(benchmark::kMillisecond)
      ->UseRealTime();
  for (const bool races : {false, true}) {
    const std::string name = "llama3_70b/forward_backward/seq4096/shapes";
    benchmark::RegisterBenchmark((name + (races ? "/races" : "")).c_str(), run_llama, races)
        ->Iterations(5)
        ->Unit(benchmark::kMillisecond);
  }
  register_steps(world);
}

}  // namespace tidemark
