#include "harness/fit/running.h"

#include <fmt/format.h>
#include <pwd.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <set>

#include "harness/errors.h"
#include "harness/help.h"
#include "harness/ranks/submitted.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

/// Flags that go on to exec, with what their help says of them.
constexpr std::array<std::pair<const char*, const char*>, kPassedFlags> kPassedOn{
    {{"--ranks", "number of processes to start"},
     {"--as-rank", "R[,R...]: ranks without partners"},
     {"--of", "number of ranks of the whole job"},
     {"--devices", "number of GPUs that a process sees"},
     {"--schedule", "when the device works"},
     {"--alloc-conf", "PyTorch's allocator settings"},
     {"--mode", "which values are computed"},
     {"--sizes", "answers for sizes that are not known"},
     {"--known-limit", "largest tensor that is computed"},
     {"--timeout", "seconds that a rank waits for another"}}};

}  // namespace

void add_running(CLI::App& app, RunningWords& words, FitOptions& fit) {
  const auto last = CLI::MultiOptionPolicy::TakeLast;
  app.prefix_command();
  app.add_option("--gpu", words.gpus, "G[,G...]: profiles of GPUs, or files (h100-80g)")
      ->allow_extra_args(false);
  app.add_option("--capacity", words.capacity,
                 "memory of the GPU that PyTorch can have, in place of what the profile leaves: as "
                 "in 22GiB")
      ->multi_option_policy(last);
  app.add_option("--reserve", words.reserve,
                 "memory of a GPU that PyTorch's allocator cannot have, in place of the profile's "
                 "context and NCCL: as in 1GiB, or 0")
      ->multi_option_policy(last);
  app.add_option("--out", fit.out, "write the result as JSON")->multi_option_policy(last);
  app.add_flag("--until-steady,!--no-until-steady", fit.until_steady,
               "end a run when its training steps repeat (default)");
  app.add_option("--jobs", fit.jobs, "runs at a time (as many as there are cores)")
      ->check(CLI::Range(1, 1024))
      ->multi_option_policy(last);
  app.add_option("--limit", fit.limit,
                 "seconds after which a run that has not ended is ended, and unknown (1800)")
      ->check(CLI::Range(1, 1 << 20))
      ->multi_option_policy(last);
  app.add_option("--cache", fit.cache, "folder of what is kept (below $XDG_CACHE_HOME/tidemark)")
      ->multi_option_policy(last);
  app.add_flag("--server,!--no-server", fit.server,
               "import torch once, and run copies of that process (default)");
  app.add_flag("--fresh", fit.fresh, "run also what the cache has");
  app.add_option("--executor", fit.executor,
                 "run each as a job: slurm, or local (this machine, as many at once as it has "
                 "processors for); needs the Python package submitit")
      ->check(CLI::IsMember({"local", "slurm"}))
      ->multi_option_policy(last);
  app.add_option("--executor-option", fit.executor_options,
                 "NAME=VALUE: a parameter of submitit (slurm_partition=gpu); several")
      ->allow_extra_args(false)
      ->check(wrong_parameter);
  for (std::size_t i = 0; i < kPassedOn.size(); ++i)
    app.add_option(kPassedOn[i].first, words.passed[i],
                   std::string(kPassedOn[i].second) + ", as in tidemark exec")
        ->multi_option_policy(last)
        ->group("Of each run");
  group(&app, "The GPUs", {"--gpu", "--capacity", "--reserve"});
  group(&app, "How it runs",
        {"--until-steady", "--limit", "--jobs", "--server", "--cache", "--fresh", "--executor",
         "--executor-option"});
  group(&app, "What is written", {"--out"});
}

std::string usual_cache(const std::string& command) {
  const char* xdg = std::getenv("XDG_CACHE_HOME");
  if (xdg != nullptr && *xdg != 0) return fs::path(xdg) / "tidemark" / command;
  const char* home = std::getenv("HOME");
  if (home == nullptr || *home == 0) {
    const passwd* user = getpwuid(geteuid());
    home = user != nullptr ? user->pw_dir : nullptr;
  }
  if (home == nullptr || *home != '/') return "";  // no folder that another user could have made
  return fs::path(home) / ".cache" / "tidemark" / command;
}

void take_running(const std::string& command, const RunningWords& words, FitOptions& fit) {
  for (std::size_t i = 0; i < kPassedOn.size(); ++i) {
    const auto& [flag, value] = std::pair(std::string(kPassedOn[i].first), words.passed[i]);
    if (value.empty()) continue;
    if (flag == "--schedule" && value.find(',') != std::string::npos)
      throw UsageError(command + ": --schedule takes one schedule: tidemark exec compares several");
    if (flag == "--alloc-conf") {  // a change of advise adds to it
      setenv("PYTORCH_ALLOC_CONF", value.c_str(), 1);
      continue;
    }
    fit.exec.insert(fit.exec.end(), {flag, value});
  }
  if (fit.executor.empty() && !fit.executor_options.empty())
    throw UsageError(command + ": --executor-option is of --executor slurm or local");
  if (!fit.executor.empty()) fit.server = false;  // which is of this process
  const auto bytes_of = [&](const char* flag, const std::string& text, auto parse) {
    std::optional<Bytes> bytes;
    if (!text.empty() && !(bytes = parse(text)))
      throw UsageError(command + ": " + not_bytes(flag, text));
    return bytes;
  };
  const auto reserve = bytes_of("--reserve", words.reserve, parse_bytes_or_zero);
  const auto capacity = bytes_of("--capacity", words.capacity, parse_bytes);
  std::set<std::string> names;
  for (const std::string& some :
       words.gpus.empty() ? std::vector<std::string>{"h100-80g"} : words.gpus)
    for (const std::string& name : CLI::detail::split(some, ',')) {
      if (!names.insert(name).second)
        throw UsageError(command + ": --gpu names " + name + " twice");
      try {
        fit.gpus.push_back(find_gpu(name, reserve, capacity));
      } catch (const UsageError& error) {  // a line of fit's
        const std::string what = error.what();
        throw UsageError(command + what.substr(what.find(':')));
      }
    }
  if (capacity && fit.gpus.size() > 1)
    throw UsageError(command + ": --capacity is that of one GPU: leave it out, or name one GPU");
}

}  // namespace tidemark
