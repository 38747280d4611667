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

Source on_github(const std::string& repository, const char* kind, int number,
                 const std::string& what) {
  return {fmt::format("{}#{}", repository, number),
          fmt::format("https://github.com/{}/{}/{}", repository, kind, number), what};
}

}  // namespace

Source issue(const std::string& repository, int number, const std::string& what) {
  return on_github(repository, "issues", number, what);
}
Source pull_request(const std::string& repository, int number, const std::string& what) {
  return on_github(repository, "pull", number, what);
}
Source own(const std::string& what) { return {"own", "", what}; }

std::vector<Scenario> registered(std::vector<Scenario> all) {
  const auto has = [](const auto& list, const std::string& name, auto member) {
    return std::ranges::find(list, name, member) != list.end();
  };
  for (const Scenario& each : all) {
    if (each.seen.empty())
      throw std::logic_error(
          "scenario " + each.name +
          " does not say where its waste was seen: give Scenario::seen an issue, "
          "a pull request, or own(\"whose idea it is\")");
    for (const auto& [figure, params] : each.published) {
      for (const std::string& variant : {figure.from, figure.to})
        if (!has(each.variants, variant, &Variant::name))
          throw std::logic_error("scenario " + each.name + " has a published figure of '" +
                                 variant + "', which is no variant of it");
      if (!has(each.seen, figure.source, &Source::name))
        throw std::logic_error("scenario " + each.name + " has a published figure of '" +
                               figure.source + "', which is none of its sources");
      for (const auto& [parameter, value] : params)
        if (!has(each.parameters, parameter, &Parameter::name))
          throw std::logic_error("scenario " + each.name + " has a published figure with '" +
                                 parameter + "', which is no parameter of it");
    }
  }
  return all;
}

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
