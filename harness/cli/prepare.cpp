#include "harness/cli/prepare.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <stdexcept>

#include "harness/cli/capacity.h"
#include "harness/device/libraries.h"
#include "harness/device/machine_facts.h"
#include "harness/device/platform.h"
#include "harness/parallel/fault_plan.h"
#include "harness/run/variant.h"
#include "harness/virtual/device/text.h"
#include "reports/folder.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

void set_twin(const char* name, const std::string& value) {
  if (!value.empty()) setenv(name, value.c_str(), 1);
}

// Why a run cannot have these settings of PyTorch's allocator; "" if it can. PyTorch parses them at
// first use: here, where a mistake is still one line.
std::string fault_of(const std::string& settings) {
  const std::string all = "," + settings, backend = ",backend:";
  const auto at = all.find(backend);
  if (at != all.npos && all.compare(at + backend.size(), 6, "native") != 0)
    return "tidemark measures PyTorch's own caching allocator; leave backend out";
  try {
    c10::CachingAllocator::AcceleratorAllocatorConfig::max_split_size();
    c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig::release_lock_on_cudamalloc();
  } catch (const c10::Error& error) {
    return first_line(error);
  } catch (const std::logic_error&) {  // of std::stoull
    return "a value is not a number, or is too large";
  }
  if (virtual_device() != nullptr &&
      c10::CachingAllocator::AcceleratorAllocatorConfig::pinned_use_background_threads())
    return "PyTorch's thread for pinned memory polls events at times that differ between runs; "
           "leave pinned_use_background_threads out";
  return "";
}

// The virtual device and PyTorch's allocator read their settings from the environment, in every
// rank.
void export_settings(const Options& options) {
  set_twin("TIDEMARK_GPU", options.gpu);
  set_twin("TIDEMARK_CAPACITY", options.capacity);
  set_twin("PYTORCH_ALLOC_CONF", options.alloc_conf);
  set_twin("TIDEMARK_TIMEOUT", std::to_string(options.timeout));
  if (const std::string fault = fault_of(options.alloc_conf); !fault.empty())
    throw UsageError(fmt::format("--alloc-conf {}: {}", options.alloc_conf, fault));
}

// A real GPU cannot be widened.
void leave_out_what_does_not_fit(std::vector<PlannedTrial>& planned) {
  if (virtual_device() != nullptr) return;
  CudaFacts facts = library_facts();
  facts.memory = platform().capacity();
  std::optional<Refusal> refused;
  for (auto& each : planned) {
    if (!each.unfit.empty() || !each.needs || *each.needs <= facts.memory) continue;
    facts.needed = *each.needs;
    if (const auto why = refusal(facts)) each.unfit = why->why, refused = why;
  }
  const auto fits = [](const PlannedTrial& each) { return each.unfit.empty(); };
  if (refused && std::ranges::none_of(planned, fits)) throw UsageError(refused->why);
}

// The leading rank plans, for all.
void share_capacities(std::vector<PlannedTrial>& planned, const Options& options,
                      const World& world) {
  std::string chosen;
  if (world.leads()) choose_capacities(planned, options.as_rank, !options.capacity.empty());
  for (const auto& each : planned)
    if (each.unfit.empty()) chosen += fmt::format("{} {}\n", each.needs.value_or(0), each.capacity);
  TextIn all(world.broadcast(chosen));
  for (auto& each : planned) {
    Bytes needs = 0, capacity = 0;
    if (!each.unfit.empty() || !(all >> needs >> capacity)) continue;
    if (needs > 0) each.needs = needs;
    each.capacity = capacity;
  }
}

void check_faults(int ranks, int as_rank) {
  const char* text = std::getenv("TIDEMARK_FAULT");
  if (text == nullptr || *text == 0) return;
  try {
    for (const FaultPlan& plan : parse_faults(text)) {
      if (as_rank >= 0 ? plan.rank == as_rank : plan.rank < ranks) continue;
      throw UsageError(fmt::format("TIDEMARK_FAULT: there is no rank {}: {}", plan.rank,
                                   as_rank >= 0 ? fmt::format("rank {} runs alone", as_rank)
                                                : fmt::format("{} ranks run", ranks)));
    }
  } catch (const std::invalid_argument& error) {
    throw UsageError(error.what());
  }
}

}  // namespace

Prepared prepare(const Options& options, int ranks, const World& world) {
  if (auto wrong = platform().check_settings(options.gpu, options.capacity); !wrong.empty())
    throw UsageError(wrong);
  export_settings(options);
  set_race_detection(options.races == "on");
  Request request = options.request;
  if (options.as_rank >= 0) {
    if (options.as_rank >= request.ranks)
      throw UsageError(fmt::format("--as-rank {} needs --ranks, at least {}", options.as_rank,
                                   options.as_rank + 1));
    if (request.mode == "math")
      throw UsageError(
          "--mode math needs all ranks, and --as-rank runs one: leave out one of the two");
    request.mode = "shapes";
  }
  if (request.ranks == 0) request.ranks = ranks;
  check_faults(request.ranks, options.as_rank);
  auto planned = plan(request, scenarios(), platform_schedules());
  share_capacities(planned, options, world);
  leave_out_what_does_not_fit(planned);
  if (options.numbers && std::ranges::none_of(planned, [](const PlannedTrial& each) {
        return each.trial.mode == Mode::math;
      }))
    throw UsageError(
        "--numbers: none of these trials computes numbers: choose --mode math, in a size that has "
        "it");
  auto note = options.note + capacity_notes(planned);
  return {std::move(planned), std::move(note)};
}

fs::path output_folder(const std::string& wanted, const std::string& id, bool force) {
  const fs::path folder =
      (wanted.empty() ? default_folder(id) : fs::absolute(wanted)).lexically_normal();
  std::error_code error;
  if (fs::exists(folder, error) && !fs::is_directory(folder, error))
    throw UsageError(fmt::format("--out {}: is not a folder; choose another one", folder.string()));
  if (fs::exists(folder, error) && !fs::is_empty(folder, error)) {
    const std::string why =
        force ? irreplaceable(folder) : "a run never overwrites another without --force";
    if (!why.empty())
      throw UsageError(
          fmt::format("--out {}: has something in it, and {}; choose an empty or a new folder",
                      folder.string(), why));
    empty_folder(folder);
  }
  fs::create_directories(folder, error);
  if (error)
    throw UsageError(fmt::format("--out {}: cannot be made ({}); choose another folder",
                                 folder.string(), error.message()));
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    throw UsageError(
        fmt::format("--out {}: cannot be written; choose another folder", folder.string()));
  return folder;
}

}  // namespace tidemark
