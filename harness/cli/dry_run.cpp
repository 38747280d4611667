#include "harness/cli/dry_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <set>
#include <string>

#include "harness/cli/checkpoint.h"
#include "harness/cli/commands.h"
#include "harness/print.h"
#include "harness/record/units.h"
#include "reports/history/history.h"
#include "reports/history/trial_times.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

fs::path history_of(const Options& options) {
  const fs::path folder =
      options.out.empty() ? fs::path("tidemark-out") : fs::path(options.out).parent_path();
  return (folder.empty() ? fs::path(".") : folder) / kHistoryFile;
}

// The parameters that --set has changed, and the number of variants that run.
std::string particulars(const PlannedTrial& each) {
  std::string out = fmt::format("{} steps, {} of {} variants", each.trial.steps,
                                each.variants.size(), each.scenario->variants.size());
  const auto size = std::ranges::find(each.scenario->sizes, each.trial.size, &Size::name);
  const Params usual =
      size == each.scenario->sizes.end() ? Params() : size->params_on(each.trial.ranks);
  const Settings settings = settings_of(*each.scenario, each.trial.params);
  for (const auto& [name, value] : each.trial.params)
    if (const auto own = usual.find(name); own == usual.end() || own->second != value)
      out += fmt::format(", {}={}", name, setting_text(settings.at(name)));
  return out;
}

std::string estimate(std::size_t run, std::size_t known, Ns total, const fs::path& history) {
  if (run == 0) return "";
  if (known == 0)
    return fmt::format(" How long is unknown: {} has no run of these trials on this host.",
                       history.string());
  return fmt::format(
      " About {} for {} of them, from what each took last on this host ({}){}", in_minutes(total),
      known == run ? "all" : std::to_string(known), history.string(),
      known == run ? "." : fmt::format("; {} of them have not run here: unknown.", run - known));
}

}  // namespace

void print_plan(const std::vector<PlannedTrial>& planned, const Options& options) {
  const fs::path history = history_of(options);
  const auto past = past_trials(history, host_name(), options.as_rank >= 0);
  std::size_t name = 5;
  for (const auto& each : planned) name = std::max(name, record_of(each).name().size());
  print(stdout, "{:<{}}  {:>10}  {:>9}  {}\n", "trial", name, "needs", "took last", "");
  std::size_t run = 0, known = 0;
  Ns total = 0;
  for (const auto& each : planned) {
    const TrialRecord record = record_of(each);
    if (!each.unfit.empty()) {
      print(stdout, "{:<{}}  SKIPPED: {}\n", record.name(), name, each.unfit);
      continue;
    }
    ++run;
    const auto took = time_of(past, record);
    if (took) ++known, total += *took;
    print(stdout, "{:<{}}  {:>10}  {:>9}  {}\n", record.name(), name,
          each.needs ? bytes_text(*each.needs) : "?", took ? in_minutes(*took) : "?",
          particulars(each));
  }
  print(stdout, "\n{} of {} trials would run, {} would be skipped.{}\n", run, planned.size(),
        planned.size() - run, estimate(run, known, total, history));
}

}  // namespace tidemark
