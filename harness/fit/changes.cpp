#include "harness/fit/changes.h"

#include <cstdlib>

namespace tidemark {
namespace {

constexpr const char* kAllocator = "PYTORCH_ALLOC_CONF";

constexpr ProgramChange kChanges[] = {
    {"allocator: expandable_segments", "expandable", kAllocator, "expandable_segments:True", 3},
    {"allocator: max_split_size_mb:128", "split", kAllocator, "max_split_size_mb:128", 3},
    {"NCCL without recorded streams", "streams", "TORCH_NCCL_AVOID_RECORD_STREAMS", "1"},
    {"zero_grad(set_to_none=True)", "set_to_none"},
    {"optimizer with foreach", "foreach_optimizer", nullptr, nullptr, 1},
    {"optimizer without foreach", "plain_optimizer", nullptr, nullptr, 1},
    {"fused optimizer", "fused_optimizer", nullptr, nullptr, 1},
    {"DDP: gradient_as_bucket_view", "bucket_view"},
    {"Python's garbage collected each step", "collect_garbage"},
    {"recompute every second repeated module", "recompute_half", nullptr, nullptr, 2},
    {"recompute all repeated modules", "recompute_all", nullptr, nullptr, 2},
    {"bf16 autocast", "autocast", nullptr, nullptr, 0, false},
};

constexpr const char* kOlder = "PYTORCH_CUDA_ALLOC_CONF";  // of releases before 2.9

/// The allocator's settings of the user, with a comma after them.
std::string settings() {
  for (const char* name : {kAllocator, kOlder})
    if (const char* value = std::getenv(name); value != nullptr && *value != 0)
      return std::string(value) + ",";
  return "";
}

}  // namespace

std::span<const ProgramChange> all_changes() { return kChanges; }

Wanted changed(Wanted one, const std::vector<const ProgramChange*>& changes) {
  for (const ProgramChange* each : changes) {
    if (each->variable == nullptr)
      one.changes.push_back(each->name);
    else if (each->variable == kAllocator)
      one.environment[kAllocator] = settings() + each->value;
    else
      one.environment[each->variable] = each->value;
    one.label += (one.label.empty() ? "" : " + ") + std::string(each->what);
  }
  if (std::getenv(kOlder) != nullptr && one.environment.contains(kAllocator))
    one.environment[kOlder] = one.environment[kAllocator];
  return one;
}

}  // namespace tidemark
