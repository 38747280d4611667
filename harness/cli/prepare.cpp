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

// The highest peak that the closed forms know of, of a variant on a rank.
Bytes predicted_peak(const PlannedTrial& planned, int stand_for) {
  Trial trial = planned.trial;
  if (trial.schedule == "device") trial.schedule = "lagging";  // which its own time cannot exceed
  const auto& variants = planned.scenario->variants;
  double highest = 0;
  for (int rank = 0; rank < trial.ranks; ++rank) {
    if (stand_for >= 0 && rank != stand_for) continue;
    for (const auto& name : planned.variants)
      for (const auto& one : expectations(*planned.scenario, trial,
                                          *std::ranges::find(variants, name, &Variant::name), rank))
        highest = std::max(highest, one.formula.evaluate());
  }
  return static_cast<Bytes>(highest);
}

// A real GPU cannot be widened. A size's capacity is that of its worst case: what these ranks need
// may be less.
void leave_out_what_does_not_fit(std::vector<PlannedTrial>& planned, int stand_for) {
  if (platform().kind() == "virtual") return;
  CudaFacts facts = library_facts();
  facts.memory = platform().capacity();
  std::optional<Refusal> refused;
  for (auto& each : planned) {
    if (!each.unfit.empty() || each.capacity <= facts.memory) continue;
    facts.needed = predicted_peak(each, stand_for);
    if (const auto why = refusal(facts)) each.unfit = why->why, refused = why;
  }
  const auto fits = [](const PlannedTrial& each) { return each.unfit.empty(); };
  if (refused && std::ranges::none_of(planned, fits)) throw UsageError(refused->why);
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
  if (options.stand_for >= 0) {
    if (options.stand_for >= request.ranks)
      throw UsageError(fmt::format("--stand-for {}: of how many ranks? Give --ranks, at least {}",
                                   options.stand_for, options.stand_for + 1));
    if (request.mode == "math")
      throw UsageError("--mode math: numbers need all ranks, and --stand-for runs one");
    request.mode = "shapes";
  }
  if (request.ranks == 0) request.ranks = ranks;
  auto planned = plan(request, scenarios(), platform_schedules());
  leave_out_what_does_not_fit(planned, options.stand_for);
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
