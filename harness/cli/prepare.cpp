#include "harness/cli/prepare.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "harness/libraries.h"
#include "harness/parallel/fault_plan.h"
#include "harness/platform.h"

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
  try {  // PyTorch parses them at first use: here, where a mistake is still one line
    c10::CachingAllocator::AcceleratorAllocatorConfig::max_split_size();
    c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig::release_lock_on_cudamalloc();
  } catch (const c10::Error& error) {
    const std::string text = error.what_without_backtrace();
    throw UsageError("--alloc-conf " + options.alloc_conf + ": " + text.substr(0, text.find('\n')));
  }
}

// Sizes beyond one GPU run on virtual GPUs that hold them: what is asked there is how much is
// needed.
std::string widen_capacity(const Options& options, const std::vector<PlannedTrial>& planned) {
  Bytes needed = 0;
  for (const auto& each : planned) needed = std::max(needed, each.capacity);
  if (!options.capacity.empty() || needed <= platform().capacity() ||
      platform().kind() != "virtual")
    return "";
  set_twin("TIDEMARK_CAPACITY", std::to_string(needed));
  platform().set_capacity(needed);
  return fmt::format(
      "note: the virtual GPUs hold {} GiB each, for the waste to be seen whole (--capacity BYTES "
      "limits them)\n",
      needed >> 30);
}

// A real GPU cannot be widened.
void require_memory(const std::vector<PlannedTrial>& planned) {
  if (platform().kind() == "virtual") return;
  CudaFacts facts = library_facts();
  facts.memory = platform().capacity();
  for (const auto& each : planned)
    if (each.unfit.empty()) facts.needed = std::max(facts.needed, each.capacity);
  if (auto refused = refusal(facts)) throw UsageError(refused->why);
}

}  // namespace

Prepared prepare(const Options& options, int ranks) {
  if (auto wrong = platform().check_settings(options.gpu, options.capacity); !wrong.empty())
    throw UsageError(wrong);
  export_settings(options);
  if (const char* fault = std::getenv("TIDEMARK_FAULT"); fault != nullptr && *fault != 0) {
    try {
      parse_faults(fault);
    } catch (const std::invalid_argument& error) {
      throw UsageError(error.what());
    }
  }
  platform().set_race_detection(options.races == "on");
  Request request = options.request;
  if (request.ranks == 0) request.ranks = ranks;
  auto planned = plan(request, scenarios(), platform_schedules());
  require_memory(planned);
  if (options.numbers && std::ranges::none_of(planned, [](const PlannedTrial& each) {
        return each.trial.mode == Mode::math;
      }))
    throw UsageError(
        "--numbers: none of these trials computes numbers: choose --mode math, in a size that has "
        "it");
  auto note = options.note + widen_capacity(options, planned);
  return {std::move(planned), std::move(note)};
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

bool in_color(const Options& options) {
  if (options.color != "auto") return options.color == "always";
  if (const char* said = std::getenv(kTerminal)) return std::string(said) == "1";
  return isatty(STDOUT_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
}

}  // namespace tidemark
