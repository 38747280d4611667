#include <benchmark/benchmark.h>
#include <fmt/format.h>
#include <regex.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <numeric>

#include "harness/cli/bench.h"
#include "harness/cli/prepare.h"
#include "harness/device/platform.h"
#include "harness/measure/recorder.h"
#include "harness/print.h"
#include "harness/ranks/flight_recorder.h"
#include "harness/run/gather.h"
#include "harness/run/runner.h"
#include "harness/run/variant.h"
#include "reports/benchmark.h"

namespace tidemark {
namespace {

using Clock = std::chrono::steady_clock;

// The first step makes the optimizer's state, the second what is made anew after it (DDP's
// buckets).
constexpr int kWarmUp = 2;

// The schedule with the device's clock: that of a model of the GPU, or the GPU's own.
std::string timed_schedule() { return virtual_device() != nullptr ? "calibrated" : "device"; }

// A trial, and the records of those of its variants that a benchmark wanted: on rank 0 whole.
class Pairs {
 public:
  Pairs(PlannedTrial planned, World& world) : planned_(std::move(planned)), world_(world) {}

  std::string reason_to_leave_out(const Variant& variant) const {
    const auto& leave_out = planned_.scenario->leave_out;
    return leave_out ? leave_out(planned_.trial, variant) : "";
  }

  void run(benchmark::State& state, const Variant& variant, bool& failed) {
    TrialRecord trial = record_of(*planned_.scenario, planned_.trial);
    if (const Variant* first = baseline(); first != nullptr && first != &variant)
      trial.variants.push_back(measured(*first));
    trial.variants.push_back(measured(variant));
    std::string error = trial.variants.back().error;
    if (error.empty()) error = time(state, variant);
    if (!error.empty()) {
      failed = true;
      return state.SkipWithError(error.c_str());
    }
    const BenchmarkRow row = benchmark_row(trial, trial.variants.back());
    for (const auto& [name, value] : row.counters)
      state.counters[name] =
          benchmark::Counter(value, benchmark::Counter::kDefaults,
                             name.find("percent") == name.npos ? benchmark::Counter::kIs1024
                                                               : benchmark::Counter::kIs1000);
    state.SetLabel(row.label);
  }

 private:
  const Variant* baseline() const {
    for (const Variant& each : planned_.scenario->variants)
      if (each.role == Role::baseline && reason_to_leave_out(each).empty()) return &each;
    return nullptr;
  }
  void set_device() const {
    release_device();
    if (planned_.capacity != 0) set_capacity(planned_.capacity);
  }

  const VariantRecord& measured(const Variant& variant) {
    const auto [at, fresh] = records_.try_emplace(variant.name);
    if (!fresh) return at->second;
    VariantRecord mine{.name = variant.name, .role = variant.role, .what = variant.what};
    set_device();
    const auto errors = attempt(
        world_,
        [&] {
          mine.ranks = {
              run_recorded(*planned_.scenario, planned_.trial, variant, world_, {}).seen.record};
        },
        flight::here);
    if (!errors.empty()) mine = {.name = variant.name, .role = variant.role};
    TrialRecord trial = record_of(*planned_.scenario, planned_.trial);
    trial.variants.push_back(std::move(mine));
    at->second = gather(std::move(trial), world_).variants.front();
    at->second.error = errors_text(errors);
    return at->second;
  }

  // The error that ended it, or empty. Every rank tells the library the same time, which makes all
  // of them run as many steps.
  std::string time(benchmark::State& state, const Variant& variant) {
    Trial trial = planned_.trial;
    trial.schedule = timed_schedule();
    trial.steps = kWarmUp + static_cast<int>(state.max_iterations);
    std::vector<Ns> steps;
    std::chrono::duration<double> host{};
    set_device();
    const auto errors = attempt(
        world_,
        [&] {
          warm_up(*planned_.scenario, trial, variant, world_);
          prepare_device(trial);
          Recorder recorder(trial, /*closely=*/false);
          auto program = planned_.scenario->make(trial, variant, world_);
          int index = 0;
          const auto step = [&] {
            recorder.begin_step(index);
            program->step(index++, recorder);
            recorder.end_step();
          };
          while (index < kWarmUp) step();
          const auto begin = Clock::now();
          for (auto _ : state) step();
          host = Clock::now() - begin;
          recorder.finish();
          steps = std::move(recorder.step_time_ns);
        },
        flight::here);
    if (!errors.empty()) return errors_text(errors);
    const Ns mine = std::accumulate(steps.begin() + kWarmUp, steps.end(), Ns{0});
    state.SetIterationTime(1e-9 * std::stod(world_.broadcast(std::to_string(mine))));
    state.counters["host_seconds"] = host.count() / static_cast<double>(state.max_iterations);
    return "";
  }

  const PlannedTrial planned_;
  World& world_;
  std::map<std::string, VariantRecord> records_;
};

// As the library reads it: "all" and nothing take everything, '-' what does not match.
class Filter {
 public:
  explicit Filter(std::string text) : text_(std::move(text)) {
    if (text_.empty() || text_ == "all") text_ = ".";
    without_ = text_.front() == '-';
    const int fault =
        regcomp(&expression_, text_.c_str() + (without_ ? 1 : 0), REG_EXTENDED | REG_NOSUB);
    if (fault == 0) return;
    char why[256] = {};
    regerror(fault, &expression_, why, sizeof why);
    throw UsageError(
        fmt::format("--benchmark_filter={}: not a regular expression ({})", text_, why));
  }
  ~Filter() { regfree(&expression_); }
  Filter(const Filter&) = delete;
  Filter& operator=(const Filter&) = delete;
  bool takes(const std::string& name) const {
    return (regexec(&expression_, name.c_str(), 0, nullptr, 0) == 0) != without_;
  }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  bool without_ = false;
  regex_t expression_{};
};

/// A variant that the filter takes, by its name, and its trial.
struct Chosen {
  std::size_t trial;
  const Variant* variant;
  std::string name;
};

std::vector<Chosen> chosen(const std::vector<PlannedTrial>& planned, const Filter& filter,
                           bool controls) {
  std::vector<Chosen> all;
  for (std::size_t i = 0; i < planned.size(); ++i) {
    const TrialRecord record = record_of(*planned[i].scenario, planned[i].trial);
    for (const Variant& variant : planned[i].scenario->variants) {
      const std::string name = benchmark_name(record, variant.name);
      if ((variant.role == Role::control) == controls && filter.takes(name + kManualTime))
        all.push_back({i, &variant, name});
    }
  }
  return all;
}

Request request_of(const Options& options, int ranks) {
  Request request = options.request;
  if (request.size.empty()) request.size = "seed";
  if (request.mode.empty()) request.mode = "shapes";
  if (request.schedule.empty()) request.schedule = "lagging";
  if (request.ranks == 0) request.ranks = ranks;
  for (const Scenario& scenario : scenarios())  // others have no size of this name
    if (std::ranges::find(scenario.sizes, request.size, &Size::name) != scenario.sizes.end())
      request.patterns.push_back(scenario.name);
  return request;
}

}  // namespace

void register_pairs(const Options& given, const std::string& filter_text, World& world,
                    bool& failed) {
  Options options = given;
  options.races = "off";
  options.request = request_of(given, world.size());
  const Filter filter(filter_text);
  Request all = options.request;
  all.set.clear();  // a parameter may be one of the chosen scenarios' alone
  const auto possible = plan(all, scenarios(), platform_schedules());
  auto pairs = chosen(possible, filter, false);
  const auto controls = chosen(possible, filter, true);
  if (options.controls) pairs.insert(pairs.end(), controls.begin(), controls.end());
  if (pairs.empty() && controls.empty())
    throw NothingSelected(fmt::format(
        "no benchmark matches {} (tidemark bench --benchmark_list_tests=true names them)",
        filter.text()));
  if (pairs.empty())
    throw NothingSelected(
        fmt::format("{} matches controls alone ({}), which are wrong on purpose and have no price: "
                    "choose baselines or fixes, or add --controls",
                    filter.text(), controls.front().name));
  std::ranges::stable_sort(pairs, {}, [](const Chosen& one) {
    return std::pair(one.trial, one.variant->role == Role::control);
  });
  options.request.patterns.clear();
  for (const Chosen& one : pairs)
    options.request.patterns.push_back(possible[one.trial].scenario->name);
  const Prepared prepared = prepare(options, world.size(), world);
  if (world.leads()) print_text(stderr, prepared.note);
  for (const PlannedTrial& each : prepared.planned) {
    if (!each.unfit.empty()) {
      if (world.leads())
        print(stderr, "note: {}: not measured: {}\n", each.trial.scenario, each.unfit);
      continue;
    }
    const auto here = std::make_shared<Pairs>(each, world);
    for (const Chosen& one : pairs) {
      const PlannedTrial& of = possible[one.trial];
      if (of.scenario != each.scenario || of.trial.schedule != each.trial.schedule) continue;
      if (const std::string why = here->reason_to_leave_out(*one.variant); !why.empty()) {
        if (world.leads()) print(stderr, "note: {}: not measured: {}\n", one.name, why);
        continue;
      }
      benchmark::RegisterBenchmark(one.name.c_str(), [here, &failed, variant = one.variant](
                                                         benchmark::State& state) {
        here->run(state, *variant, failed);
      })->UseManualTime();
    }
  }
}

}  // namespace tidemark
