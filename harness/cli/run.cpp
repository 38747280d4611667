#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>

#include "harness/cli/commands.h"
#include "harness/cli/output_folder.h"
#include "harness/launch.h"
#include "harness/platform.h"

namespace tidemark {
namespace {

void set_twin(const char* name, const std::string& value) {
  if (!value.empty()) setenv(name, value.c_str(), 1);
}

// The virtual device and PyTorch's allocator read their settings from the environment, in every rank.
void export_settings(const Options& options) {
  set_twin("TIDEMARK_GPU", options.gpu);
  set_twin("TIDEMARK_CAPACITY", options.capacity);
  set_twin("PYTORCH_ALLOC_CONF", options.alloc_conf);
  set_twin("TIDEMARK_TIMEOUT", std::to_string(options.timeout));
}

void print_plan(const std::vector<PlannedTrial>& planned) {
  for (const auto& each : planned) {
    fmt::print("{}/{}/r{}/{}/{}", each.trial.scenario, each.trial.size, each.trial.ranks, name_of(each.trial.mode),
               each.trial.schedule);
    for (const auto& [name, value] : each.trial.params) fmt::print(" {}={}", name, value);
    fmt::print(" steps={} variants={}{}\n", each.trial.steps, fmt::join(each.variants, ","),
               each.unfit.empty() ? "" : " SKIPPED: " + each.unfit);
  }
}

}  // namespace

int run_command(Options& options, int argc, char** argv) {
  export_settings(options);
  if (auto wrong = platform().check_settings(); !wrong.empty()) throw UsageError(wrong);
  Request request = options.request;
  if (request.ranks == 0) request.ranks = 4;
  auto planned = plan(request, scenarios(), platform_schedules());
  if (options.dry_run) {
    print_plan(planned);
    return 0;
  }
  const OutputFolder folder(options.out, describe_run(argc, argv).id);
  setenv("TIDEMARK_OUT", folder.path().c_str(), 1);
  return launch(request.ranks, {argv, argv + argc});
}

}  // namespace tidemark
