#include "harness/cli/trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <optional>
#include <sstream>

#include "harness/cli/checkpoint.h"
#include "harness/cli/numbers.h"
#include "harness/cli/oom.h"
#include "harness/cli/terminal.h"
#include "harness/device/platform.h"
#include "harness/measure/timing.h"
#include "harness/parallel/fault.h"
#include "harness/ranks/launch.h"
#include "harness/record/json.h"
#include "harness/run/bracket.h"
#include "harness/run/runner.h"
#include "reports/events/events.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

class Progress {
 public:
  explicit Progress(std::size_t count) : count_(count) {}
  void next() { ++trial_; }
  void operator()(const std::string& what) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    if (live_)
      fmt::print(stderr, "\r\033[K[{}/{}] {} ({:.1f} s)", trial_, count_, what, seconds);
    else if (what != last_)
      fmt::print(stderr, "[{}/{}] {} ({:.1f} s)\n", trial_, count_, what, seconds);
    last_ = what;
  }
  void done() const {
    if (live_) fmt::print(stderr, "\r\033[K");
  }

 private:
  std::size_t trial_ = 0, count_;
  mutable std::string last_;
  const bool live_ = shows_progress();
  Clock::time_point start_ = Clock::now();
};

// Both sides of the first place where they differ, with what stands before it.
std::string first_difference(const std::string& a, const std::string& b) {
  constexpr std::size_t kBefore = 60, kLength = 100;
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  const std::size_t from = at - std::min(at, kBefore);
  return fmt::format("{} against {}", b.substr(from, kLength), a.substr(from, kLength));
}

TrialRecord run_planned(const PlannedTrial& planned, World& world, const Options& options,
                        const RunOptions& run_options) {
  auto record = run_trial(*planned.scenario, planned.trial, world, run_options);
  const bool repeats = virtual_device() != nullptr || platform().keeps_time();
  const std::string first =
      options.repetitions > 1 ? json_text(record) : "";  // before this adds to it
  std::vector<StepTimes> times{step_times(record)};
  RunOptions repeated = run_options;
  repeated.numbers = nullptr;  // the first run's are written
  for (int again = 1; repeats && again < options.repetitions; ++again) {
    auto other = run_trial(*planned.scenario, planned.trial, world, repeated);
    if (!world.leads()) continue;
    times.push_back(step_times(other));
    if (virtual_device() == nullptr) continue;
    Verdict verdict{
        .name = "parity/repetition", .variant = "all", .status = Status::pass, .unit = "reports"};
    verdict.formula = "a repeated trial leaves the same record, byte for byte";
    if (const std::string text = json_text(other); text != first) {
      verdict.status = Status::fail;
      verdict.why = fmt::format("repetition {} differs from the first run, in {}", again + 1,
                                first_difference(first, text));
    }
    record.verdicts.push_back(verdict);
  }
  if (virtual_device() == nullptr) add_timing(record, times);
  return record;
}

// Whether the scenario runs under lagging too, which is where memory is highest: in the same size,
// or loss curves in another.
bool lagging_stands_for(const PlannedTrial& one, const std::vector<PlannedTrial>& planned) {
  return one.trial.schedule != "lagging" &&
         std::ranges::any_of(planned, [&](const PlannedTrial& other) {
           const Trial &a = one.trial, &b = other.trial;
           return b.schedule == "lagging" && a.scenario == b.scenario &&
                  (a.size == "losses" || (a.size == b.size && a.mode == b.mode)) &&
                  other.unfit.empty();
         });
}

// Growth curves are drawn for the last size that a suite names, which is the most like real
// training; not for "scale": its steps take minutes.
bool draws_growth(const PlannedTrial& one, const std::vector<PlannedTrial>& planned) {
  const auto can = [&](const PlannedTrial& other) {
    return other.scenario == one.scenario && other.trial.schedule == "lagging" &&
           other.trial.size != "scale" && other.unfit.empty();
  };
  const auto last = std::find_if(planned.rbegin(), planned.rend(), can);
  return last != planned.rend() && &*last == &one;
}

// Every rank writes its own: together they may be larger than a report.
void save_events(const fs::path& folder, const TrialRecord& trial, const Variant& variant,
                 const RankRecord& record) {
  const fs::path path = folder / "allocator" / trial_folder(trial);
  write_files(path, {{path_component(fmt::format("{}_rank{}", variant.name, record.rank)) + ".json",
                      event_text(trial, variant.name, record)}});
}

std::vector<std::string> faults_that_did_not_happen(World& world) {
  std::vector<std::string> all;
  for (const std::string& of_rank : world.gather(faults_left(world.rank()))) {
    std::istringstream lines(of_rank);
    for (std::string line; std::getline(lines, line);) all.push_back(line);
  }
  return all;
}

}  // namespace

Report run_all(const std::vector<PlannedTrial>& planned, World& world, const Options& options,
               RunRecord run, const fs::path& folder, const fs::path& session) {
  Report report{std::move(run), {}};
  // What a trial is measured for depends on all that are planned, also where one alone runs.
  std::vector<const PlannedTrial*> chosen;
  for (std::size_t index = 0; index < planned.size(); ++index)
    if (options.only < 0 || index == static_cast<std::size_t>(options.only))
      chosen.push_back(&planned[index]);
  Progress progress(chosen.size());
  const auto start = Clock::now();
  Checkpoint checkpoint(session, world);
  if (world.leads()) {
    Report all{report.run, {}};
    for (const PlannedTrial* each : chosen) all.trials.push_back(record_of(*each));
    checkpoint.plan(all);
  }
  const std::string device = report.run.device_kind + " " + report.run.profile;
  std::optional<NumbersFiles> numbers;
  if (options.numbers) numbers.emplace(folder, device, world.size());
  for (std::size_t index = 0; index < chosen.size(); ++index) {
    const PlannedTrial& each = *chosen[index];
    progress.next();
    const Trial& t = each.trial;
    report.run.trial_ns.push_back(0);
    if (!each.unfit.empty()) {
      report.trials.push_back(record_of(each));
      continue;
    }
    const auto begin = Clock::now();
    checkpoint.begin(index);
    if (each.capacity != 0 && !set_capacity(each.capacity))
      throw std::logic_error(
          fmt::format("the virtual GPU cannot have {} bytes for this trial", each.capacity));
    RunOptions run_options;
    run_options.selected = [&](const Variant& v) {
      return std::ranges::find(each.variants, v.name) != each.variants.end();
    };
    run_options.explain = [&](const Variant& v) {
      return save_out_of_memory(folder, t, v.name, world.rank());
    };
    if (options.events)
      run_options.events = [&](const Variant& variant, const RankRecord& record) {
        save_events(folder, record_of(*each.scenario, t), variant, record);
      };
    if (numbers)
      run_options.numbers = [&](const Variant& variant, const Numbers& mine, const Oracle& oracle) {
        numbers->save(record_of(*each.scenario, t), variant, world.rank(), mine, oracle);
      };
    const bool left_out = options.details == "none" || lagging_stands_for(each, planned);
    run_options.details = options.details == "all" ? Details::all
                          : left_out               ? Details::none
                                                   : Details::worst;
    run_options.progress = [&](const std::string& what) { progress(what); };
    // Six more runs of every variant: not for the sizes that take minutes each.
    if (t.schedule == "calibrated" && t.mode == Mode::shapes && !each.slow)
      run_options.run_ahead = {0.5, 1, 2, 4, 8};
    run_options.growth = draws_growth(each, planned) && options.details != "none";
    run_options.ended = [&](const VariantRecord& variant) { checkpoint.add(variant); };
    report.trials.push_back(run_planned(each, world, options, run_options));
    TrialRecord& trial = report.trials.back();
    trial.capacity = each.capacity;
    trial.needs = each.needs;
    for (VariantRecord& variant : trial.variants) variant.fit = fit_of(report.run, variant);
    report.run.trial_ns.back() = (Clock::now() - begin) / std::chrono::nanoseconds(1);
    if (world.leads()) checkpoint.end(trial);
  }
  report.run.faults = faults_that_did_not_happen(world);
  if (options.only < 0) judge_brackets(report.trials);
  if (world.leads()) progress.done();
  report.run.duration_ns = (Clock::now() - start) / std::chrono::nanoseconds(1);
  return report;
}

}  // namespace tidemark
