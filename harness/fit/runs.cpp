#include "harness/fit/runs.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "harness/errors.h"
#include "harness/fit/cache.h"
#include "harness/fit/result.h"
#include "harness/ranks/processes.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

double since(Clock::time_point begun) {
  return std::chrono::duration<double>(Clock::now() - begun).count();
}

/// The variables that decide what a program of PyTorch does.
void add_environment(CacheKey& key) {
  for (char** each = environ; *each != nullptr; ++each)
    for (const std::string_view begin :
         {"TIDEMARK_", "PYTORCH_", "TORCH", "CUDA", "CUBLAS", "NCCL_", "PYTHON", "PATH="})
      if (std::string_view(*each).starts_with(begin)) key.add(*each);
}

/// A line that says how far the runs are, on a terminal, until it goes.
class ProgressLine {
 public:
  ProgressLine(fs::path notes, std::size_t all, int jobs, double each)
      : live_(isatty(STDERR_FILENO) != 0), thread_([=, this] { show(notes, all, jobs, each); }) {}
  ~ProgressLine() {
    ended_ = true;
    thread_.join();
    if (live_) fmt::print(stderr, "\r\033[K");
  }

 private:
  void show(const fs::path& notes, std::size_t all, int jobs, double each) const {
    const auto begun = Clock::now();
    for (int tick = 0; !ended_; ++tick) {
      if (live_ && tick % 5 == 0) {
        std::size_t done = 0;
        std::error_code none;
        for (const auto& file : fs::directory_iterator(notes, none))
          done += file.path().extension() == ".ended" ? 1 : 0;
        const double waits = each * static_cast<double>((all + static_cast<std::size_t>(jobs) - 1) /
                                                        static_cast<std::size_t>(jobs));
        fmt::print(stderr, "\r\033[K[{} of {} runs] {:.0f} s{}", done, all, since(begun),
                   each > 0 ? fmt::format(", about {:.0f} s", waits) : "");
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }

  bool live_;
  std::atomic<bool> ended_{false};
  std::thread thread_;
};

}  // namespace

struct Runs::Place {
  fs::path folder;  // with log, report/ and steady/
  std::string key;
};

Runs::Runs(const FitOptions& fit, std::string version, std::string torch)
    : fit_(fit), version_(std::move(version)), torch_(std::move(torch)) {
  std::string name = fs::temp_directory_path() / "tidemark-fit-XXXXXX";
  if (mkdtemp(name.data()) == nullptr)
    throw UsageError("fit: no folder can be made in " + fs::temp_directory_path().string());
  folder_ = name;
}

Runs::~Runs() {
  std::error_code ignored;
  fs::remove_all(folder_, ignored);
}

std::vector<FitRun> Runs::run(const std::vector<Wanted>& wanted) {
  std::vector<std::optional<FitRun>> results(wanted.size());
  std::vector<Place> places(wanted.size());
  std::vector<Start> starts;
  const fs::path notes = folder_ / fmt::format("notes{}", count_);
  fs::create_directories(notes);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Wanted& one = wanted[i];
    Place& place = places[i];
    place.folder = folder_ / fmt::format("{}-{}", count_, i);
    fs::create_directories(place.folder / "steady");
    const Substituted words = substitute(fit_.variables, one.values, fit_.program, place.folder);
    std::vector<std::string> argv{fs::read_symlink("/proc/self/exe"), "exec"};
    argv.insert(argv.end(), {"--gpu", one.gpu, "--capacity", std::to_string(one.capacity)});
    argv.insert(argv.end(), fit_.exec.begin(), fit_.exec.end());
    CacheKey key;
    for (const std::string& text : {version_, torch_, one.gpu}) key.add(text);
    for (const std::string& text : argv) key.add(text);
    for (const std::string& text : fit_.program) key.add(text);
    for (const auto& [name, value] : one.values) key.add(name + "=" + value);
    for (const auto& [name, value] : one.environment) key.add("env " + name + "=" + value);
    add_environment(key);
    key.add(fit_.until_steady ? "until steady" : "to the end");
    key.add(fs::current_path());
    key.add_inputs(words.program);
    place.key = key.name();
    if (!fit_.fresh && !one.again) results[i] = cached_run(fit_.cache, place.key);
    if (results[i]) {
      results[i]->values = one.values;
      ++cached_;
      continue;
    }
    const fs::path report = place.folder / "report";  // with what is alive, or the figures alone
    if (!one.room) fs::create_directories(report);
    argv.insert(argv.end(), {one.room ? "--report" : "--out",
                             one.room ? report : report / "report.json", "--"});
    argv.insert(argv.end(), words.program.begin(), words.program.end());
    Start start{std::to_string(i), {"/bin/sh", "-c", "exec \"$@\" >\"$0\" 2>&1 </dev/null"}, {}};
    start.argv.push_back(place.folder / "log");
    start.argv.insert(start.argv.end(), argv.begin(), argv.end());
    start.environment = words.environment;
    start.environment.insert(one.environment.begin(), one.environment.end());
    start.environment["TIDEMARK_CHANGES_SAID"] = place.folder / "changed";
    start.environment["TIDEMARK_STEADY"] = place.folder / "steady";
    if (fit_.until_steady) start.environment["TIDEMARK_STEADY_ENDS"] = "1";
    starts.push_back(std::move(start));
  }
  if (!starts.empty() && interrupted_ == 0) {
    const auto begun = Clock::now();
    {
      const ProgressLine line(notes, starts.size(), fit_.jobs,
                              count_ == 0 ? 0 : seconds_ / static_cast<double>(count_));
      interrupted_ = run_processes(starts, fit_.jobs, false, notes).signal;
    }
    seconds_ += since(begun) * std::min<double>(fit_.jobs, static_cast<double>(starts.size()));
  }
  std::vector<FitRun> out;
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    if (!results[i] && !fs::exists(notes / fmt::format("{}.ended", i))) continue;
    if (!results[i] && interrupted_ != 0 && !fs::exists(places[i].folder / "report/report.json"))
      continue;
    if (!results[i]) {
      const FitRun run = read_run(wanted[i].values, places[i].folder);
      if (interrupted_ != 0 && run.exit_code != 0) continue;  // ended by the signal
      results[i] = run;
      results[i]->gpu = wanted[i].gpu;
      results[i]->capacity = wanted[i].capacity;
      results[i]->room = wanted[i].room;
      ++count_;
      keep_run(fit_.cache, places[i].key, *results[i]);
    }
    out.push_back(*results[i]);
    std::error_code ignored;
    fs::remove_all(places[i].folder, ignored);
  }
  return out;
}

}  // namespace tidemark
