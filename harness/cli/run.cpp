#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>

#include "harness/cli/commands.h"
#include "harness/launch.h"
#include "harness/platform.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

void set_twin(const char* name, const std::string& value) {
  if (!value.empty()) setenv(name, value.c_str(), 1);
}

// The virtual device and PyTorch's allocator read their settings from the environment, in every
// rank.
void export_settings(const Options& options) {
  set_twin("TIDEMARK_GPU", options.gpu);
  set_twin("TIDEMARK_CAPACITY", options.capacity);
  set_twin("PYTORCH_ALLOC_CONF", options.alloc_conf);
  set_twin("TIDEMARK_TIMEOUT", std::to_string(options.timeout));
}

void print_plan(const std::vector<PlannedTrial>& planned) {
  for (const auto& each : planned) {
    fmt::print("{}/{}/r{}/{}/{}", each.trial.scenario, each.trial.size, each.trial.ranks,
               name_of(each.trial.mode), each.trial.schedule);
    for (const auto& [name, value] : each.trial.params) fmt::print(" {}={}", name, value);
    fmt::print(" steps={} variants={}{}\n", each.trial.steps, fmt::join(each.variants, ","),
               each.unfit.empty() ? "" : " SKIPPED: " + each.unfit);
  }
}

// Sizes beyond one GPU run on virtual GPUs that hold them: what is asked there is how much is needed.
void widen_capacity(const Options& options, const std::vector<PlannedTrial>& planned) {
  Bytes needed = 0;
  for (const auto& each : planned) needed = std::max(needed, each.capacity);
  if (!options.capacity.empty() || needed <= platform().capacity() || platform().kind() != "virtual") return;
  fmt::print(stderr, "note: the virtual GPUs hold {} GiB each, for the waste to be seen whole (--capacity BYTES limits them)\n",
             needed >> 30);
  set_twin("TIDEMARK_CAPACITY", std::to_string(needed));
}

// Made before anything runs, so that an unwritable place is found at once; never one that has
// something in it.
fs::path output_folder(const std::string& wanted, const std::string& id) {
  const fs::path folder =
      fs::absolute(wanted.empty() ? fs::path("tidemark-out") / id : fs::path(wanted))
          .lexically_normal();
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error))
    throw UsageError(fmt::format("--out {}: is not a folder; choose another one", folder.string()));
  if (fs::exists(folder, error) && !fs::is_empty(folder, error))
    throw UsageError(
        fmt::format("--out {}: has something in it, and a run never overwrites another; choose an "
                    "empty or a new "
                    "folder",
                    folder.string()));
  fs::create_directories(folder, error);
  if (error)
    throw UsageError(fmt::format("--out {}: cannot be made ({}); choose another folder",
                                 folder.string(), error.message()));
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw UsageError(
        fmt::format("--out {}: cannot be written; choose another folder", folder.string()));
  return folder;
}

}  // namespace

int run_command(Options& options, int argc, char** argv) {
  if (auto wrong = platform().check_settings(options.gpu, options.capacity); !wrong.empty())
    throw UsageError(wrong);
  export_settings(options);
  Request request = options.request;
  if (request.ranks == 0) request.ranks = 4;
  auto planned = plan(request, scenarios(), platform_schedules());
  if (options.dry_run) {
    print_plan(planned);
    return 0;
  }
  widen_capacity(options, planned);
  const fs::path folder = output_folder(options.out, describe_run(argc, argv).id);
  setenv("TIDEMARK_OUT", folder.c_str(), 1);
  // The ranks' own output goes through mpirun: only this process knows what the user looks at.
  if (options.color == "auto")
    setenv("TIDEMARK_COLOR",
           isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr ? "always" : "never",
           1);
  if (isatty(STDERR_FILENO) != 0) setenv("TIDEMARK_LIVE", "1", 1);
  const int code = launch(request.ranks, {argv, argv + argc});
  std::error_code ignored;
  if (fs::is_empty(folder, ignored)) fs::remove(folder, ignored);
  return code;
}

}  // namespace tidemark
