#include "harness/cli/trials.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>

#include "harness/cli/checkpoint.h"
#include "harness/cli/commands.h"
#include "harness/cli/extent.h"
#include "harness/cli/numbers.h"
#include "harness/cli/oom.h"
#include "harness/cli/progress.h"
#include "harness/cli/repetition.h"
#include "harness/cli/resume.h"
#include "harness/device/platform.h"
#include "harness/parallel/fault.h"
#include "harness/ranks/launch.h"
#include "harness/run/bracket.h"
#include "harness/run/runner.h"
#include "harness/virtual/device/text.h"
#include "reports/events/events.h"
#include "reports/history/history.h"
#include "reports/history/trial_times.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

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
    TextIn lines(of_rank);
    for (std::string line; std::getline(lines, line);) all.push_back(line);
  }
  return all;
}

// The leading rank writes the report of the run before, where that was not written, and the others
// read it.
Resumed resume(const Options& options, World& world, const RunRecord& now) {
  if (options.resume.empty()) return {};
  std::string wrong;
  std::optional<Resumed> mine;
  if (world.leads()) {
    try {
      mine.emplace(options.resume, now);
    } catch (const UsageError& error) {
      wrong = error.what();
    }
  }
  wrong = world.broadcast(wrong);
  if (!wrong.empty()) throw UsageError(wrong);
  return mine ? std::move(*mine) : Resumed(options.resume, now);
}

/// Last duration of each trial, where the history beside `folder` knows it; nothing for one that is
/// taken over or skipped.
std::vector<std::optional<Ns>> expected_times(const std::vector<const PlannedTrial*>& chosen,
                                              const Resumed& resumed, const fs::path& folder,
                                              const Options& options) {
  const PastTrials past =
      past_trials(folder.parent_path() / kHistoryFile, host_name(), options.as_rank >= 0);
  std::vector<std::optional<Ns>> all;
  for (const PlannedTrial* each : chosen)
    all.push_back(!each->unfit.empty() || resumed.of(*each) != nullptr
                      ? Ns{0}
                      : time_of(past, record_of(*each)));
  return all;
}

}  // namespace

Report run_all(const std::vector<PlannedTrial>& planned, World& world, const Options& options,
               RunRecord run, const fs::path& folder, const fs::path& session) {
  Report report{std::move(run), {}};
  // The extent of a trial's record depends on all planned trials, also where one alone runs.
  std::vector<const PlannedTrial*> chosen;
  for (std::size_t index = 0; index < planned.size(); ++index)
    if (options.only < 0 || index == static_cast<std::size_t>(options.only))
      chosen.push_back(&planned[index]);
  const Resumed resumed = resume(options, world, report.run);
  Progress progress(expected_times(chosen, resumed, folder, options));
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
    if (const TrialRecord* finished = resumed.of(each)) {
      report.trials.push_back(*finished);
      report.run.trial_ns.back() = resumed.time_of(*finished);
      if (world.leads()) checkpoint.end(index, *finished);
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
    run_options.progress = [&](const std::string& what) { progress(what); };
    set_extent(run_options, each, planned, options.details);
    run_options.ended = [&](const VariantRecord& variant) { checkpoint.add(variant); };
    report.trials.push_back(run_repeated(each, world, options.repetitions, run_options));
    TrialRecord& trial = report.trials.back();
    trial.capacity = each.capacity;
    trial.needs = each.needs;
    for (VariantRecord& variant : trial.variants) variant.fit = fit_of(report.run, variant);
    report.run.trial_ns.back() = (Clock::now() - begin) / std::chrono::nanoseconds(1);
    if (world.leads()) checkpoint.end(index, trial);
  }
  report.run.faults = faults_that_did_not_happen(world);
  if (options.only < 0) judge_brackets(report.trials);
  if (world.leads()) progress.done();
  report.run.duration_ns = (Clock::now() - start) / std::chrono::nanoseconds(1);
  return report;
}

}  // namespace tidemark
