// `tidemark bench`: Google Benchmark's own front end and flags. What one operator costs on the
// plain CPU, in shapes and in math; starting; one step of every variant; a Llama-3-70B-shaped
// forward and backward.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <spawn.h>
#include <sys/wait.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "harness/cli/commands.h"
#include "harness/cli/llama.h"
#include "harness/device/platform.h"
#include "harness/measure/recorder.h"
#include "harness/ranks/launch.h"
#include "harness/ranks/terminal.h"
#include "harness/ranks/world.h"
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

constexpr int kWarmUp = 1, kSteps = 2;

void run_step(benchmark::State& state, const Scenario& scenario, const Variant& variant,
              Trial trial, World& world) {
  trial.steps = kWarmUp + kSteps;
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
  while (index < kWarmUp) step();
  for (auto _ : state) step();
  recorder.finish();
  for (Statistic statistic : {Statistic::allocated, Statistic::active, Statistic::reserved}) {
    state.counters[std::string(name_of(statistic)) + "_peak"] =
        static_cast<double>(recorder.record.peak(statistic));
  }
}

void register_steps(World& world) {
  for (const auto& scenario : scenarios())
    for (const auto& size : scenario.sizes) {
      if (size.name != "smoke") continue;
      for (const auto& variant : scenario.variants) {
        if (variant.role == Role::control) continue;
        for (Mode mode : {Mode::shapes, Mode::math}) {
          Trial trial{scenario.name,
                      size.name,
                      platform_schedules().front(),
                      size.params,
                      mode,
                      world.size(),
                      0,
                      0};
          if (!why_unfit(scenario, trial).empty()) continue;
          const std::string name = "step/" + scenario.name + "/" + variant.name + "/" + size.name +
                                   "/r" + std::to_string(world.size()) + "/" + name_of(mode);
          benchmark::RegisterBenchmark(
              name.c_str(),
              [&scenario, &variant, trial, &world](benchmark::State& state) {
                run_step(state, scenario, variant, trial, world);
              })
              ->Iterations(kSteps)
              ->Unit(benchmark::kMillisecond);
        }
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

void print_help() {
  std::fputs(
      "usage: tidemark bench [flags of Google Benchmark]\n"
      "  --benchmark_list_tests={true|false}\n"
      "  --benchmark_filter=REGEX\n"
      "  --benchmark_min_time=TIME                  2s, or 10x for ten iterations\n"
      "  --benchmark_repetitions=N\n"
      "  --benchmark_enable_random_interleaving={true|false}\n"
      "  --benchmark_report_aggregates_only={true|false}\n"
      "  --benchmark_format={console|json|csv}\n"
      "  --benchmark_out=FILE\n"
      "  --benchmark_out_format={json|console|csv}\n"
      "  --benchmark_color={auto|true|false}\n"
      "  --benchmark_counters_tabular={true|false}\n"
      "  --benchmark_context=KEY=VALUE,...\n"
      "  --benchmark_time_unit={ns|us|ms|s}\n"
      "Steps run on every rank of a launcher (mpirun -n 2 tidemark bench); operators alone.\n"
      "exit codes: 0, 2 usage, 3 infrastructure, 4 no benchmark matches\n",
      stdout);
}

// Reports nothing: only rank 0 speaks.
class Silent final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

}  // namespace

int bench_command(int argc, char** argv) {
  if (std::any_of(argv + 1, argv + argc, [](const char* word) {
        return std::string_view(word) == "--help" || std::string_view(word) == "-h";
      })) {
    print_help();
    return 0;
  }
  std::shared_ptr<Link> link = link_of_launcher();
  at::set_num_threads(1);
  at::globalContext().lazyInitDevice(at::kCUDA);
  c10::cuda::set_device(0);
  int ran = 0;
  {
    World world(link);
    if (world.size() == 1) {  // these time one process; ranks beside it would only disturb
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
    }
    register_steps(world);
    std::string color = std::string("--benchmark_color=") + (in_color() ? "true" : "false");
    std::vector<char*> words(argv, argv + argc);
    words.insert(words.begin() + 1, color.data());  // the user's own comes later
    int count = static_cast<int>(words.size());
    benchmark::Initialize(&count, words.data());
    if (benchmark::ReportUnrecognizedArguments(count, words.data())) return 2;
    Silent silent;
    ran = static_cast<int>(world.rank() == 0 ? benchmark::RunSpecifiedBenchmarks()
                                             : benchmark::RunSpecifiedBenchmarks(&silent));
    benchmark::Shutdown();
  }
  link.reset();
  return ran > 0 ? 0 : 4;
}

}  // namespace tidemark
