#include "harness/run/explore.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>

#include "harness/device/platform.h"
#include "harness/run/growth.h"
#include "harness/run/variant.h"
#include "harness/virtual/device/text.h"

namespace tidemark {
namespace {

// The peaks depend on run-ahead where the variant's closed forms differ between the schedules. A
// variant without forms may depend on it.
bool depends_on_run_ahead(const Scenario& scenario, Trial trial, const Variant& variant, int rank) {
  const auto figures = [&](const char* schedule) {
    trial.schedule = schedule;
    std::multimap<std::string, double> all;
    for (const auto& form : expectations(scenario, trial, variant, rank))
      all.emplace(verdict_name(form), form.formula.evaluate());
    return all;
  };
  const auto instant = figures("instant");
  return instant.empty() || instant != figures("lagging");
}

// Peaks against run-ahead: the same steps with other host costs of a launch, the first and one
// after it, which the others repeat. The mean kernel time is that of a run whose launches cost the
// host nothing, so that the device alone decides how long a step takes.
std::vector<SweepPoint> sweep(const Scenario& scenario, Trial trial, const Variant& variant,
                              World& world, const std::vector<double>& ratios) {
  struct LaunchCost {
    explicit LaunchCost(Ns ns) { virtual_device()->set_launch_cost(ns); }
    ~LaunchCost() { virtual_device()->set_launch_cost(-1); }
  };
  trial.steps = std::min(trial.steps, 2);
  auto run = [&](Ns launch_cost) {
    const LaunchCost cost(launch_cost);
    return run_variant(scenario, trial, variant, world);
  };
  const VariantRun free_running = run(0);
  Ns total = 0;
  for (Ns time : free_running.step_time_ns) total += time;
  const double kernel =
      static_cast<double>(total) /
      static_cast<double>(std::max<std::int64_t>(1, free_running.seen.record.counters.launches));
  std::vector<SweepPoint> points;
  for (double ratio : ratios) {
    const VariantRun at = run(static_cast<Ns>(kernel / ratio));
    const RankRecord& record = at.seen.record;
    points.push_back({ratio, record.peak(Statistic::allocated), record.peak(Statistic::active),
                      record.peak(Statistic::reserved), at.step_time_ns.back()});
  }
  return points;
}

// The worst rank's, on every rank.
Origin worst_origin(const Scenario& scenario, const Trial& trial, const Variant& variant,
                    const RankRecord& record, const World& world) {
  Origin origin{worst_rank(record, world), {}};
  Peaks peaks = measured_peaks(record, expectations(scenario, trial, variant, record.rank));
  std::string mine;
  for (auto* peak : {&peaks.allocated, &peaks.active, &peaks.reserved, &peaks.resident})
    mine += fmt::format("{} ", peak->value_or(-1));
  TextIn text(world.alone() ? mine
                            : world.exchange(mine).at(static_cast<std::size_t>(origin.rank)));
  auto& theirs = origin.peaks;
  for (auto* peak : {&theirs.allocated, &theirs.active, &theirs.reserved, &theirs.resident})
    if (Bytes bytes = 0; text >> bytes && bytes >= 0) *peak = bytes;
  return origin;
}

// An axis each, rank by rank; gather brings them together. The rank that is drawn runs without its
// partners.
void grow(const Scenario& scenario, const Trial& trial, const Variant& variant,
          const RankRecord& own, World& world, VariantRecord& record,
          std::vector<Verdict>& verdicts) {
  const Origin origin = worst_origin(scenario, trial, variant, own, world);
  for (int turn = 0; const Parameter& parameter : scenario.parameters) {
    if (!parameter.axis) continue;
    record.growth.push_back({parameter.name, origin.rank, {}});
    if (!world.alone() && turn++ % world.size() != world.rank()) continue;
    auto grown =
        grow(scenario, trial, variant, parameter, origin, platform().capacity(),
             [&](const Trial& other) {
               World alone(origin.rank, trial.ranks);
               return run_variant(scenario, other, variant, alone, {.purpose = "the growth of "})
                   .seen.record;
             });
    record.growth.back() = std::move(grown.curve);
    if (grown.verdict) verdicts.push_back(std::move(*grown.verdict));
  }
}

}  // namespace

int worst_rank(const RankRecord& record, const World& world) {
  if (world.alone()) return record.rank;
  int worst = 0;
  Bytes highest = -1;
  const auto all = world.exchange(std::to_string(record.peak(Statistic::allocated)));
  for (int rank = 0; const std::string& peak : all) {
    if (const Bytes bytes = std::stoll(peak); bytes > highest) highest = bytes, worst = rank;
    ++rank;
  }
  return worst;
}

Exploration applicable(const Scenario& scenario, const Trial& trial, int rank,
                       const std::vector<const Variant*>& selected, Exploration wanted) {
  if (virtual_device() == nullptr) return {};
  // One variant whose forms differ is enough: the others are drawn beside it.
  const auto depends = [&](const Variant* variant) {
    return variant->role != Role::control && depends_on_run_ahead(scenario, trial, *variant, rank);
  };
  if (!wanted.run_ahead.empty() && std::ranges::none_of(selected, depends))
    wanted.run_ahead.clear();
  return wanted;
}

void explore(const Scenario& scenario, const Trial& trial, const Variant& variant,
             const RankRecord& own, World& world, const Exploration& exploration,
             VariantRecord& record, std::vector<Verdict>& verdicts) {
  if (!exploration.run_ahead.empty())
    record.sweep = sweep(scenario, trial, variant, world, exploration.run_ahead);
  if (exploration.growth) grow(scenario, trial, variant, own, world, record, verdicts);
}

}  // namespace tidemark
