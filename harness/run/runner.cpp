#include "harness/run/runner.h"

#include <ATen/ATen.h>
#include <ATen/core/CachingHostAllocator.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/util/Exception.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <set>
#include <sstream>
#include <stdexcept>
#include <thread>

#include "harness/device/platform.h"
#include "harness/device/workspaces.h"
#include "harness/judge/gradients.h"
#include "harness/judge/judge.h"
#include "harness/judge/oracle.h"
#include "harness/judge/saving.h"
#include "harness/measure/allocator_trace.h"
#include "harness/measure/recorder.h"
#include "harness/ranks/flight_recorder.h"
#include "harness/run/gather.h"
#include "harness/run/growth.h"

namespace tidemark {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

Seen run_variant(const Scenario& scenario, const Trial& trial, const Variant& variant, World& world,
                 std::vector<LossPoint>& loss, std::vector<Ns>& step_time, bool closely,
                 const char* what = "", bool every_event = false) {
  prepare_device(trial);
  Seen seen;
  seen.variant = &variant;
  const std::string where =
      fmt::format("{}{}/{}/{} {}", what, trial.scenario, trial.size, trial.schedule, variant.name);
  flight::place(where);
  {
    Recorder recorder(trial, closely, every_event);
    {
      auto program = scenario.make(trial, variant, world);
      for (int step = 0; step < trial.steps; ++step) {
        flight::place(fmt::format("{}, step {}", where, step));
        recorder.begin_step(step);
        program->step(step, recorder);
        recorder.end_step();
      }
      recorder.finish();
      if (trial.mode == Mode::math)
        for (auto& shard : program->parameters())
          seen.numbers.parameters.push_back(
              {shard.name, shard.offset, shard.values.detach().cpu()});
    }
    seen.record = std::move(recorder.record);
    seen.record.rank = world.rank();
    loss = recorder.losses;
    step_time = recorder.step_time_ns;
    if (trial.mode == Mode::math) {
      seen.numbers.loss = recorder.losses;
      seen.numbers.gradients = std::move(recorder.first_gradients);
    }
  }
  return seen;
}

// What a process does once (pool streams, library handles) is done before the first record of a
// variant, in its smallest size: a record depends on its trial alone, not on what ran before it.
void warm_up(const Scenario& scenario, Trial trial, const Variant& variant, World& world) {
  static std::set<std::string> warm;
  if (scenario.sizes.empty() || !warm.insert(scenario.name + "/" + variant.name).second) return;
  trial.params = scenario.sizes.front().params_on(trial.ranks);
  trial.steps = 2;
  if (scenario.unfit && !scenario.unfit(trial).empty()) return;
  if (scenario.leave_out && !scenario.leave_out(trial, variant).empty()) return;
  std::vector<LossPoint> loss;
  std::vector<Ns> step_time;
  run_variant(scenario, trial, variant, world, loss, step_time, false, "the warm-up of ");
}

std::string reason_to_skip(const Scenario& scenario, const Trial& trial, const Variant& variant) {
  if (variant.caught_by.starts_with("race/") && !platform().detects_races())
    return platform().kind() == "virtual"
               ? "race detection is switched off (--races on)"
               : "needs the race detector, which only the virtual device has";
  return scenario.leave_out ? scenario.leave_out(trial, variant) : "";
}

// What its closed forms say of each schedule's ends; a variant without any may well depend on it.
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
    explicit LaunchCost(Ns ns) { platform().set_launch_cost(ns); }
    ~LaunchCost() { platform().set_launch_cost(-1); }
  };
  trial.steps = std::min(trial.steps, 2);
  auto run = [&](Ns launch_cost) {
    const LaunchCost cost(launch_cost);
    std::vector<LossPoint> loss;
    std::vector<Ns> step_time;
    Seen seen = run_variant(scenario, trial, variant, world, loss, step_time, false);
    return std::pair(seen.record, step_time);
  };
  auto [free_running, times] = run(0);
  Ns total = 0;
  for (Ns time : times) total += time;
  const double kernel = static_cast<double>(total) / static_cast<double>(std::max<std::int64_t>(
                                                         1, free_running.counters.launches));
  std::vector<SweepPoint> points;
  for (double ratio : ratios) {
    auto [record, step_times] = run(static_cast<Ns>(kernel / ratio));
    points.push_back({ratio, record.peak(Statistic::allocated), record.peak(Statistic::active),
                      record.peak(Statistic::reserved), step_times.back()});
  }
  return points;
}

// The rank with the highest peak of allocated, the first of them.
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

// The worst rank's, on every rank.
Origin worst_origin(const Scenario& scenario, const Trial& trial, const Variant& variant,
                    const RankRecord& record, const World& world) {
  Origin origin{worst_rank(record, world), {}};
  Peaks peaks = measured_peaks(record, expectations(scenario, trial, variant, record.rank));
  std::string mine;
  for (auto* peak : {&peaks.allocated, &peaks.active, &peaks.reserved, &peaks.resident})
    mine += fmt::format("{} ", peak->value_or(-1));
  std::istringstream text(
      world.alone() ? mine : world.exchange(mine).at(static_cast<std::size_t>(origin.rank)));
  auto& theirs = origin.peaks;
  for (auto* peak : {&theirs.allocated, &theirs.active, &theirs.reserved, &theirs.resident})
    if (Bytes bytes = 0; text >> bytes && bytes >= 0) *peak = bytes;
  return origin;
}

// An axis each, rank by rank; gather brings them together. The rank that is drawn runs without its
// partners.
void grow(const Scenario& scenario, const Trial& trial, const Variant& variant,
          const RankRecord& own, World& world, VariantRecord& mine,
          std::vector<Verdict>& verdicts) {
  const Origin origin = worst_origin(scenario, trial, variant, own, world);
  for (int turn = 0; const Parameter& parameter : scenario.parameters) {
    if (!parameter.axis) continue;
    mine.growth.push_back({parameter.name, origin.rank, {}});
    if (!world.alone() && turn++ % world.size() != world.rank()) continue;
    auto grown = grow(scenario, trial, variant, parameter, origin, platform().capacity(),
                      [&](const Trial& other) {
                        World alone(origin.rank, trial.ranks);
                        std::vector<LossPoint> loss;
                        std::vector<Ns> step_time;
                        return run_variant(scenario, other, variant, alone, loss, step_time, false,
                                           "the growth of ")
                            .record;
                      });
    mine.growth.back() = std::move(grown.curve);
    if (grown.verdict) verdicts.push_back(std::move(*grown.verdict));
  }
}

// Of a rank that is neither the worst nor has races, the details go.
void leave_out_details(RankRecord& record, World& world) {
  if (record.rank == worst_rank(record, world) || !record.races.empty()) return;
  record.maps.clear();
  record.spans = {};
  record.trace = {};
}

// Runs it on every rank; what ended it where, the same text on all, or empty. Who broke off by
// itself comes before who only noticed. `about`: what a rank that broke off has to say besides.
std::string attempt(World& world, const std::function<void()>& body,
                    const std::function<std::string()>& about) {
  std::string mine;
  try {
    body();
  } catch (const std::exception& error) {
    mine = first_line(error);
    if (mine.empty()) mine = "an exception without a text";
    const auto more = about();
    flight::threw(mine);
    if (!more.empty()) mine += " [" + more + "]";
  }
  std::string first, then;
  const auto all = world.exchange(mine);
  for (std::size_t rank = 0; rank < all.size(); ++rank) {
    if (all[rank].empty()) continue;
    const bool noticed = all[rank].find("has aborted the communicator") != std::string::npos;
    std::string& text = noticed ? then : first;
    text += (text.empty() ? "" : "; ") +
            fmt::format("rank {}: {}", world.alone() ? world.rank() : static_cast<int>(rank),
                        all[rank]);
  }
  return first + (first.empty() || then.empty() ? "" : "; ") + then;
}

// Of every variant that ran, against the first baseline that did.
void compare_gradients(const std::vector<Seen>& all, const Oracle& oracle, TrialRecord& record) {
  const auto baseline = std::ranges::find_if(
      all, [](const Seen& seen) { return seen.variant->role == Role::baseline && seen.ran(); });
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!all[i].ran()) continue;
    const bool compares = baseline != all.end() && &*baseline != &all[i];
    record.variants[i].gradients =
        gradient_errors(all[i].numbers.gradients, compares ? &baseline->numbers.gradients : nullptr,
                        oracle.gradients);
  }
}

// Autograd's device thread holds the last node it has run, and with it what that has saved, for a
// moment after backward has returned.
void await_autograd(c10::DeviceIndex device) {
  for (int i = 0; i < 1000; ++i) {
    if (allocator::getDeviceStats(device).allocated_bytes[0].current == 0) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

}  // namespace

std::string first_line(const std::exception& error) {
  const auto* from_torch = dynamic_cast<const c10::Error*>(&error);
  const std::string text =
      from_torch != nullptr ? from_torch->what_without_backtrace() : error.what();
  return text.substr(0, text.find('\n'));
}

TrialRecord record_of(const Scenario& scenario, const Trial& t) {
  TrialRecord record{t.scenario, t.size, t.schedule, t.mode, t.ranks, t.steps, t.seed, t.params};
  record.story = scenario.story;
  record.statistic = scenario.statistic;
  return record;
}

void prepare_device(const Trial& trial) {
  at::globalContext().lazyInitDevice(at::kCUDA);
  c10::cuda::device_synchronize();
  at::cuda::clearCublasWorkspaces();
  const auto device = c10::cuda::current_device();
  await_autograd(device);
  allocator::emptyCache();
  at::getHostAllocator(at::kCUDA)->empty_cache();
  auto stats = allocator::getDeviceStats(device);
  if (stats.allocated_bytes[0].current != 0 || stats.reserved_bytes[0].current != 0)
    throw std::logic_error(
        "the variant before left " + std::to_string(stats.allocated_bytes[0].current) +
        " bytes allocated and " + std::to_string(stats.reserved_bytes[0].current) + " reserved");
  allocator::resetPeakStats(device);
  for (auto kind : {at::kCPU, at::kCUDA}) {
    at::Generator generator =
        at::globalContext().defaultGenerator(at::Device(kind, kind == at::kCUDA ? device : -1));
    generator.set_current_seed(trial.seed);
  }
  platform().begin(trial.schedule, trial.mode, trial.seed);
  set_current_category("activations");
}

TrialRecord run_trial(const Scenario& scenario, const Trial& trial, World& world,
                      const Codec& codec, const RunOptions& options) {
  TrialRecord record = record_of(scenario, trial);
  std::vector<Seen> all;
  std::vector<Verdict> of_growth;
  std::set<Role> drawn;  // the first baseline and the fix
  // One variant that does is enough: the others are drawn beside it.
  const bool sweeps = !options.run_ahead.empty() &&
                      std::ranges::any_of(scenario.variants, [&](const Variant& variant) {
                        return variant.role != Role::control &&
                               (!options.selected || options.selected(variant)) &&
                               depends_on_run_ahead(scenario, trial, variant, world.rank());
                      });
  for (const auto& variant : scenario.variants) {
    if (options.selected && !options.selected(variant)) continue;
    if (options.progress && world.leads()) options.progress(record.name() + " " + variant.name);
    VariantRecord mine;
    mine.name = variant.name;
    mine.role = variant.role;
    mine.what = variant.what;
    Seen seen;
    if (auto reason = reason_to_skip(scenario, trial, variant); !reason.empty()) {
      seen.variant = &variant;
      seen.record.rank = world.rank();
      seen.skipped = reason;
    } else {
      const auto error = attempt(
          world,
          [&] {
            warm_up(scenario, trial, variant, world);
            const auto run = [&](const char* what) {
              return run_variant(scenario, trial, variant, world, mine.loss, mine.step_time_ns,
                                 options.details != Details::none, what,
                                 static_cast<bool>(options.events));
            };
            if (platform().learn_host_time(trial.schedule)) run("the timing of ");
            seen = run("");
            if (options.events) options.events(variant, seen.record);
            seen.record.events.clear();
            if (sweeps && variant.role != Role::control)
              mine.sweep = sweep(scenario, trial, variant, world, options.run_ahead);
            const bool other_fix = variant.role == Role::fixed && !scenario.drawn_fix.empty() &&
                                   variant.name != scenario.drawn_fix;
            if (options.growth && platform().kind() == "virtual" && variant.role != Role::control &&
                !other_fix && drawn.insert(variant.role).second)
              grow(scenario, trial, variant, seen.record, world, mine, of_growth);
          },
          [&] {
            // Controls that break off have done what they should: there is nothing to look into.
            if (variant.role == Role::control) return std::string();
            const std::string explained = options.explain ? options.explain(variant) : "";
            return flight::here() + (explained.empty() ? "" : "; " + explained);
          });
      if (!error.empty()) {
        mine = {variant.name, variant.role, error, {}, {}, {}, {},
                {},           variant.what, {},    {}, {}, {}};
        seen = {&variant, {}, {}, {}, error};
        seen.record.rank = world.rank();
        // A control that is to be caught by breaking off has done what it should.
        if (variant.caught_by.starts_with("error/")) mine.error.clear();
      } else {
        if (options.details == Details::worst) leave_out_details(seen.record, world);
        mine.ranks.push_back(seen.record);
      }
    }
    if (options.ended) options.ended(mine);
    all.push_back(std::move(seen));
    record.variants.push_back(std::move(mine));
  }
  Oracle oracle;
  if (trial.mode == Mode::math) {
    oracle = shared_oracle(scenario, trial, world);
    compare_gradients(all, oracle, record);
    for (const Seen& seen : all)
      if (options.numbers && seen.ran()) options.numbers(*seen.variant, seen.numbers, oracle);
  }
  record.verdicts =
      judge(scenario, trial, world.rank(), all, trial.mode == Mode::math ? &oracle : nullptr);
  std::ranges::move(of_growth, std::back_inserter(record.verdicts));
  record = gather(std::move(record), world, codec);
  if (world.leads()) {
    record.symbols = symbols_of(scenario, trial, world.rank());
    std::ranges::move(step_savings(scenario, trial, record), std::back_inserter(record.verdicts));
  }
  return record;
}

}  // namespace tidemark
