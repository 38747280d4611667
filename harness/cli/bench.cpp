// `tidemark bench`: the pairs as benchmarks of Google's library, with its front end.
#include "harness/cli/bench.h"

#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <benchmark/benchmark.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>
#include <memory>

#include "harness/cli/commands.h"
#include "harness/device/arithmetic.h"
#include "harness/device/devices.h"
#include "harness/device/platform.h"
#include "harness/ranks/launch.h"
#include "harness/ranks/terminal.h"
#include "harness/virtual/device/text.h"
#include "reports/benchmark.h"

namespace tidemark {
namespace {

// The library's reporter of the chosen format; its warning that it was built as DEBUG in our words.
class Reporter final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context& context) override {
    TextOut said;
    inner_.SetOutputStream(&GetOutputStream());
    inner_.SetErrorStream(&said);
    const bool goes_on = inner_.ReportContext(context);
    inner_.SetErrorStream(&GetErrorStream());
    TextIn lines(said.str());
    for (std::string line; std::getline(lines, line);)
      GetErrorStream()
          << (line.find("built as DEBUG") == line.npos
                  ? line
                  : "Debian's build of the library has its assertions, which cost host "
                    "time alone, nanoseconds a step")
          << "\n";
    return goes_on;
  }
  void ReportRuns(const std::vector<Run>& runs) override { inner_.ReportRuns(runs); }
  void Finalize() override { inner_.Finalize(); }

 private:
  benchmark::BenchmarkReporter& inner_ = *benchmark::CreateDefaultDisplayReporter();
};

// Takes what the library prints by itself (a list of the tests) on other ranks than 0.
class Nowhere final : public std::streambuf {
  int_type overflow(int_type c) override { return traits_type::not_eof(c); }
};

// Reports nothing: only rank 0 speaks.
class Silent final : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(const Context&) override { return true; }
  void ReportRuns(const std::vector<Run>&) override {}
};

// Gives the library its flags: ours first, which the user's override. Returns the filter.
std::string initialize(const Options& options, const World& world) {
  static std::vector<std::string> words;  // the library keeps the first, the program's name
  words = {"tidemark", "--benchmark_counters_tabular=true",
           std::string("--benchmark_color=") + (in_color() ? "true" : "false")};
  // Virtual time is the same in every step like it: one is enough. A GPU's own varies.
  if (virtual_device() != nullptr && std::getenv("BENCHMARK_MIN_TIME") == nullptr && !options.self)
    words.emplace_back("--benchmark_min_time=0.000001");
  for (const std::string& word : options.library) {
    if (!word.starts_with("--benchmark_") && !word.starts_with("--v="))
      throw UsageError(fmt::format("bench: {} is no flag (tidemark bench --help has them)", word));
    if (word.starts_with("--benchmark_enable_random_interleaving") && !word.ends_with("=false") &&
        !world.alone() && world.size() > 1)
      throw UsageError(word + ": every rank would have an order of its own; leave it out");
    words.push_back(word);
  }
  if (!world.leads()) words.emplace_back("--benchmark_out=");  // rank 0 writes it
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  int count = static_cast<int>(all.size());
  if (!options.self) benchmark::SetDefaultTimeUnit(benchmark::kMillisecond);
  benchmark::Initialize(&count, all.data());
  if (count > 1) throw UsageError(fmt::format("bench: {} is no flag of Google Benchmark", all[1]));
  return benchmark::GetBenchmarkFilter();
}

void describe(const World& world) {
  benchmark::AddCustomContext("tidemark", version_text().substr(0, version_text().find('\n')));
  benchmark::AddCustomContext("tidemark_device", platform().kind() + " " + platform().profile());
  benchmark::AddCustomContext("tidemark_time", benchmark_clock(platform().kind()));
  benchmark::AddCustomContext(
      "tidemark_ranks",
      world.alone() ? fmt::format("rank {} of {} alone, which never waits for another one",
                                  world.rank(), world.size())
                    : fmt::format("{}, each figure on the rank where it is highest", world.size()));
}

std::unique_ptr<World> world_of(const Options& options, const World& all) {
  const int ranks = options.request.ranks == 0 ? all.size() : options.request.ranks;
  if (all.size() > 1 && (options.as_rank >= 0 || options.self))
    throw UsageError(fmt::format("bench {}: runs one process, and the launcher has started {}",
                                 options.self ? "--self" : "--as-rank", all.size()));
  if (options.as_rank >= ranks)
    throw UsageError(fmt::format("--as-rank {} needs --ranks, at least {}", options.as_rank,
                                 options.as_rank + 1));
  if (options.as_rank >= 0) return std::make_unique<World>(options.as_rank, ranks);
  if (ranks > all.size())
    throw UsageError(fmt::format("--ranks {}: the launcher started only {} (mpirun -n {})", ranks,
                                 all.size(), ranks));
  return all.first(ranks);
}

}  // namespace

int bench_command(Options& options) {
  std::shared_ptr<Link> link = link_of_launcher();
  int code = 0;
  {
    const World all(link);
    at::set_num_threads(1);
    set_arithmetic();
    at::globalContext().lazyInitDevice(at::kCUDA);
    assign_gpu(all);
    if (const auto world = world_of(options, all)) {
      world->timeout = options.timeout;
      bool failed = false;
      const std::string filter = initialize(options, *world);
      if (options.self) {
        register_self(*world);
      } else {
        register_pairs(options, filter, *world, failed);
        describe(*world);
      }
      std::size_t ran = 0;
      if (world->leads()) {
        Reporter reporter;
        ran = benchmark::RunSpecifiedBenchmarks(&reporter);
      } else {
        Nowhere nowhere;
        std::streambuf* const before = std::cout.rdbuf(&nowhere);
        Silent silent;
        ran = benchmark::RunSpecifiedBenchmarks(&silent);
        std::cout.rdbuf(before);
      }
      benchmark::Shutdown();
      code = ran == 0 ? 4 : failed ? 3 : 0;
    }
    code = all.worst(code);
  }
  return code;
}

}  // namespace tidemark
