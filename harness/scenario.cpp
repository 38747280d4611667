#include "harness/scenario.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDAAllocatorConfig.h>
#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <limits>

namespace tidemark {

const char* name_of(Basis basis) {
  constexpr const char* kNames[] = {"form", "account", "replay"};
  return kNames[static_cast<int>(basis)];
}

namespace {

std::vector<Expectation> followed(std::vector<Expectation> all) {
  if (!unfollowed_settings().empty())
    std::erase_if(all, [](const auto& one) { return one.statistic != Statistic::requested; });
  return all;
}

}  // namespace

std::string unfollowed_settings() {
  using Allocators = c10::CachingAllocator::AcceleratorAllocatorConfig;
  using OfCuda = c10::cuda::CUDACachingAllocator::CUDAAllocatorConfig;
  constexpr std::size_t kLargeSegment = 20 << 20;
  const bool rounds = std::ranges::any_of(Allocators::roundup_power2_divisions(),
                                          [](std::size_t divisions) { return divisions > 1; });
  const bool splits = Allocators::max_split_size() == std::numeric_limits<std::size_t>::max();
  // Without a fraction of the device the allocator collects nothing.
  const bool collects =
      Allocators::garbage_collection_threshold() > 0 && OfCuda::per_process_memory_fraction() < 1;
  if (!rounds && splits && !collects && !Allocators::use_expandable_segments() &&
      Allocators::large_segment_size() == kLargeSegment)
    return "";
  return fmt::format(
      "PYTORCH_ALLOC_CONF={}: allocated, active and reserved bytes are predicted for the "
      "allocator's default rounding, splitting and segments alone",
      Allocators::last_allocator_settings());
}

std::vector<Expectation> forms_of(const Scenario& scenario, const Trial& trial,
                                  const Variant& variant, int rank) {
  if (!scenario.forms) return {};
  return followed(scenario.forms(trial, variant, rank));
}

std::vector<Expectation> expectations(const Scenario& scenario, const Trial& trial,
                                      const Variant& variant, int rank) {
  auto all = forms_of(scenario, trial, variant, rank);
  if (scenario.replay)
    std::ranges::move(followed(scenario.replay(trial, variant, rank)), std::back_inserter(all));
  return all;
}

std::vector<Expectation> sums_of(const Scenario& scenario, const Trial& trial,
                                 const Variant& variant, int rank) {
  auto all = expectations(scenario, trial, variant, rank);
  std::erase_if(all, [](const auto& one) { return one.basis == Basis::replay; });
  return all;
}

std::string why_unfit(const Scenario& scenario, const Trial& trial) {
  if (trial.ranks > kMostRanks)
    return "at most " + std::to_string(kMostRanks) + " ranks, not " + std::to_string(trial.ranks);
  return scenario.unfit ? scenario.unfit(trial) : "";
}

Settings settings_of(const Scenario& scenario, const Params& params) {
  Settings settings;
  for (const auto& [name, value] : params) {
    const auto parameter = std::ranges::find(scenario.parameters, name, &Parameter::name);
    if (parameter == scenario.parameters.end() || parameter->values.empty())
      settings[name] = value;
    else
      settings[name] = parameter->values.at(static_cast<std::size_t>(value - parameter->low));
  }
  return settings;
}

}  // namespace tidemark
