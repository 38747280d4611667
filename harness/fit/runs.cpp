#include "harness/fit/runs.h"

#include <fmt/format.h>
#include <signal.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <set>
#include <thread>

#include "harness/errors.h"
#include "harness/exec/settings.h"
#include "harness/fit/cache.h"
#include "harness/fit/result.h"
#include "harness/print.h"
#include "harness/ranks/processes.h"
#include "harness/ranks/submitted.h"
#include "harness/record/file.h"
#include "harness/record/write.h"

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
  for (const int limit : {RLIMIT_AS, RLIMIT_DATA, RLIMIT_STACK, RLIMIT_NOFILE, RLIMIT_NPROC}) {
    rlimit most{};  // of the host: what it ends says nothing where there is none
    if (getrlimit(limit, &most) == 0) key.add(fmt::format("limit {} {}", limit, most.rlim_cur));
  }
}

/// Progress of the whole command.
struct Progress {
  std::string stage;       // "2 of 4 answers"
  std::size_t before = 0;  // runs of earlier calls
  Clock::time_point begun;
  double& said;  // seconds at which a line of a log was written
};

/// Calls `ended(i)` for each run that has ended, as soon as it has, and says how far the command
/// is, until it goes: on a terminal in one line, else in a line every half minute. `ended` returns
/// false for a run that it takes only after the last.
class Watch {
 public:
  Watch(fs::path notes, std::vector<std::size_t> all, Progress progress,
        std::function<bool(std::size_t)> ended)
      : notes_(std::move(notes)),
        all_(std::move(all)),
        progress_(std::move(progress)),
        ended_(std::move(ended)) {
    thread_ = std::thread([this] { watch(); });
  }
  ~Watch() {
    stop();
    if (live_) print_over(stderr, "");
  }
  void stop() {
    stopped_ = true;
    if (thread_.joinable()) thread_.join();
  }

 private:
  void look() {
    for (const std::size_t i : all_)
      if (!done_.contains(i) && fs::exists(notes_ / fmt::format("{}.ended", i)) && ended_(i))
        done_.insert(i);
  }
  void watch() {
    constexpr double kQuiet = 30;  // seconds
    for (int tick = 0; !stopped_; ++tick) {
      look();
      const double seconds = since(progress_.begun);
      const std::string stage = progress_.stage.empty() ? "" : progress_.stage + ", ";
      const std::string line =
          fmt::format("[{}{} runs done, {} to go in this round] {:.0f} s", stage,
                      progress_.before + done_.size(), all_.size() - done_.size(), seconds);
      if (live_ && tick % 5 == 0) print_over(stderr, "{}", line);
      if (!live_ && seconds - progress_.said >= kQuiet) {
        print(stderr, "tidemark: {}\n", line);
        progress_.said = seconds;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    }
  }

  bool live_ = isatty(STDERR_FILENO) != 0;
  fs::path notes_;
  std::vector<std::size_t> all_;
  Progress progress_;
  std::set<std::size_t> done_;
  std::function<bool(std::size_t)> ended_;
  std::atomic<bool> stopped_{false};
  std::thread thread_;
};

}  // namespace

struct Runs::Place {
  fs::path folder;  // with log, report/ and steady/
  std::string key;
};

Runs::Runs(const FitOptions& fit, std::string version, std::string torch)
    : fit_(fit), version_(std::move(version)), torch_(std::move(torch)) {
  hear_interruptions();  // from here on the folder goes, whatever ends this
  const std::string why =
      fit_.cache.empty() ? "HOME is not set; name a folder (--cache)" : not_ours(fit_.cache);
  has_cache_ = why.empty();
  fs::path place = fs::temp_directory_path();
  if (!fit_.executor.empty() && has_cache_) {  // where other machines find it too
    place = fit_.cache;
    fs::create_directories(place);
  }
  std::string name = place / "tidemark-fit-XXXXXX";
  if (mkdtemp(name.data()) == nullptr)
    throw UsageError("fit: no folder can be made in " + place.string());
  folder_.path = name;
  if (!has_cache_) print(stderr, "warning: results are not kept: {}\n", one_line(why));
}

Runs::Scratch::~Scratch() {
  std::error_code ignored;
  if (!path.empty()) fs::remove_all(path, ignored);
}

void Runs::begin() {
  if (begun_ || !fit_.server) return;
  begun_ = true;
  const std::string python = served_python(fit_.program);
  if (python.empty()) return;
  std::vector<std::string> flags;
  std::string ranks;
  bool devices = false;
  for (std::size_t i = 0; i + 1 < fit_.exec.size(); i += 2) {
    const std::string& flag = fit_.exec[i];
    if (flag == "--ranks") ranks = fit_.exec[i + 1];
    devices = devices || flag == "--devices";
    if (flag != "--ranks" && flag != "--as-rank" && flag != "--of")
      flags.insert(flags.end(), {flag, fit_.exec[i + 1]});
  }
  if (!ranks.empty() && !devices) flags.insert(flags.end(), {"--devices", ranks});
  server_.start(python, flags, folder_.path);
}

ProcessesEnd Runs::submit(const std::vector<Start>& starts, const fs::path& notes) {
  using nlohmann::json;
  const fs::path jobs = folder_.path / fmt::format("jobs{}", count_);
  const auto ranks = std::ranges::find(fit_.exec, "--ranks");
  json plan{{"executor", fit_.executor},
            {"options", job_parameters(fit_.executor_options)},
            {"cpus", ranks == fit_.exec.end() ? 1 : std::stoi(*std::next(ranks))},
            {"jobs", json::array()}};
  for (const Start& start : starts)
    plan["jobs"].push_back({{"name", start.name},
                            {"command", start.argv},
                            {"environment", start.environment},
                            {"folder", (jobs / start.name).string()}});
  fs::create_directories(jobs);
  write_bytes(jobs / "jobs.json", plan.dump());
  ProcessesEnd end;
  const int code = submit_and_wait(jobs);
  if (code == 130) end.signal = SIGINT;
  if (code != 0 && code != 130) throw Unavailable("fit: no job has run (above)", code);
  const fs::path file = jobs / "ended.json";
  const json ended = fs::exists(file) ? json::parse(read_bytes(file)) : json::array();
  for (std::size_t i = 0; i < starts.size() && i < ended.size(); ++i) {
    const std::string state = ended[i].value("state", "");
    if (state == "CANCELLED" && end.signal != 0) continue;  // by this process
    if (state != "COMPLETED")
      end.killed[starts[i].name] = fmt::format("was a job that ended as {}", state);
    write_bytes(notes / (starts[i].name + ".ended"), "");
  }
  return end;
}

std::vector<FitRun> Runs::run(const std::vector<Wanted>& wanted) {
  std::vector<std::optional<FitRun>> results(wanted.size());
  std::vector<Place> places(wanted.size());
  std::vector<Start> starts;
  const fs::path notes = folder_.path / fmt::format("notes{}", count_);
  fs::create_directories(notes);
  for (std::size_t i = 0; i < wanted.size(); ++i) {
    const Wanted& one = wanted[i];
    Place& place = places[i];
    place.folder = folder_.path / fmt::format("{}-{}", count_, i);
    fs::create_directories(place.folder / "steady");
    const Substituted words = substitute(
        fit_.variables, one.values, one.program.empty() ? fit_.program : one.program, place.folder);
    std::vector<std::string> argv{fs::read_symlink("/proc/self/exe"), "exec"};
    argv.insert(argv.end(), {"--gpu", one.gpu, "--capacity", std::to_string(one.capacity)});
    argv.insert(argv.end(), fit_.exec.begin(), fit_.exec.end());
    CacheKey key;
    for (const std::string& text : {version_, torch_, one.gpu}) key.add(text);
    for (const std::string& text : argv) key.add(text);
    for (const std::string& text : words.program)  // a file's copy is another one each time
      key.add(text.starts_with(place.folder.string()) ? "a copy" : text);
    for (const auto& set : {words.environment, one.environment})
      for (const auto& [name, value] : set) key.add("env " + name + "=" + value);
    for (const std::string& name : one.changes) key.add("change " + name);
    add_environment(key);
    key.add(fit_.until_steady ? "until steady" : "to the end");
    key.add(fs::current_path());
    key.add_inputs(words.program);
    place.key = key.name();
    if (!fit_.fresh && !one.again && has_cache_)
      results[i] = cached_run(fit_.cache, place.key, one);
    if (results[i]) {
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
    start.limit = fit_.limit;
    begin();
    ExecSettings settings;
    settings.changes = one.changes;
    settings.cause = place.folder / "cause";
    settings.changed = place.folder / "changed";
    settings.steady = place.folder / "steady";
    settings.steady_ends = fit_.until_steady;
    settings.server = server_.socket();
    start.environment.insert(settings.variable());
    starts.push_back(std::move(start));
  }
  std::map<std::string, std::string> killed;  // known when no run is taken beside
  const auto is_late = [&](std::size_t i) { return fs::exists(notes / fmt::format("{}.late", i)); };
  const auto take = [&](std::size_t i) {
    FitRun run{.values = wanted[i].values};
    bool idle = false;
    try {
      const auto signal = killed.find(std::to_string(i));
      run = read_run(wanted[i].values, places[i].folder,
                     signal == killed.end() ? "" : signal->second);
      idle = !run.stepped;
    } catch (const std::bad_alloc&) {
      throw;
    } catch (const UsageError& error) {
      if (!fit_.refusals && !is_late(i)) throw;
      run.exit_code = 2;
      run.last = error.what();
    } catch (const std::exception&) {
      if (!is_late(i)) throw;  // else it had no time for its report either
    }
    if (is_late(i)) {
      run.killed = false;  // by tidemark; how far it comes in that time is another matter each time
      run.exit_code = 0;
      run.unknown = fmt::format("a run had not ended after {} s{}, and was ended (--limit)",
                                fit_.limit, idle ? " and had made no step" : "");
    }
    run.gpu = wanted[i].gpu, run.capacity = wanted[i].capacity, run.room = wanted[i].room;
    return run;
  };
  const auto keep = [&](std::size_t i, FitRun run) {
    for (const auto& file : fs::directory_iterator(places[i].folder / "steady"))
      if (file.path().extension() == ".copy") {
        ++copies_;
        break;
      }
    if (!is_late(i) && !run.killed && has_cache_) keep_run(fit_.cache, places[i].key, run);
    results[i] = std::move(run);
    std::error_code ignored;
    fs::remove_all(places[i].folder, ignored);
  };
  // A run that failed may have been ended by a signal, which is known after the last.
  const auto keep_good = [&](std::size_t i) {
    try {
      FitRun run = take(i);
      if (run.exit_code != 0 && (run.ooms == 0 || run.killed)) return false;
      keep(i, std::move(run));
      return true;
    } catch (const std::exception&) {
      return false;
    }
  };
  if (interrupted_ == 0) interrupted_ = interruption();
  if (!starts.empty() && interrupted_ == 0) {
    std::vector<std::size_t> started;
    ProcessesEnd end;
    for (const Start& start : starts) started.push_back(std::stoul(start.name));
    if (!fit_.executor.empty()) {
      end = submit(starts, notes);
      interrupted_ = end.signal;
    } else {
      Watch watch(notes, started, {stage_, count_, since_, said_}, keep_good);
      end = run_processes(starts, fit_.jobs, false, notes);
      interrupted_ = end.signal;
    }
    killed = std::move(end.killed);
    for (const std::size_t i : started) {
      const bool ended = fs::exists(notes / fmt::format("{}.ended", i));
      if (!results[i] && ended && interrupted_ == 0) keep(i, take(i));
      if (!results[i] && ended) keep_good(i);
      count_ += results[i] ? 1 : 0;
    }
  }
  std::vector<FitRun> out;
  for (const std::optional<FitRun>& result : results)
    if (result) out.push_back(*result);
  return out;
}

}  // namespace tidemark
