#include "harness/cli/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <stdexcept>

#include "harness/cli/checkpoint.h"
#include "harness/cli/salvage.h"
#include "harness/record/json.h"
#include "harness/record/made.h"

namespace tidemark {
namespace {

std::string text_of(const std::map<std::string, std::string>& variables) {
  std::string text;
  for (const auto& [name, value] : variables)
    text += (text.empty() ? "" : " ") + name + "=" + value;
  return text;
}

}  // namespace

Resumed::Resumed(const std::filesystem::path& folder, const RunRecord& now) {
  try {
    finish_run(folder);
    report_ = read_report(folder);
  } catch (const std::runtime_error& error) {
    throw UsageError(std::string("--resume: ") + error.what());
  }
  const RunRecord& before = report_.run;
  const auto same = [&](const std::string& what, const std::string& then, const std::string& here,
                        const std::string& remedy = "") {
    if (then != here)
      throw UsageError(fmt::format("--resume: {} has other {}: '{}', and this run has '{}'{}",
                                   folder.string(), what, then, here, remedy));
  };
  const std::string arguments = fmt::format("{}", fmt::join(telling_arguments(before), " "));
  same("arguments", arguments, fmt::format("{}", fmt::join(telling_arguments(now), " ")),
       fmt::format("; tidemark {} --resume {} goes on with it", arguments, folder.string()));
  same("software", installation_of(before), installation_of(now));
  same("bytes of each GPU", std::to_string(before.capacity_bytes),
       std::to_string(now.capacity_bytes));
  same("variables", text_of(telling_variables(before)), text_of(telling_variables(now)));
}

const TrialRecord* Resumed::of(const PlannedTrial& planned) const {
  const TrialRecord wanted = record_of(planned);
  const auto past_trial = std::ranges::find_if(report_.trials, [&](const TrialRecord& trial) {
    return trial.name() == wanted.name() && trial.steps == wanted.steps &&
           trial.seed == wanted.seed && trial.params == wanted.params &&
           trial.capacity == wanted.capacity;
  });
  if (past_trial == report_.trials.end() || course_of(*past_trial) != Course::finished)
    return nullptr;
  const bool whole = std::ranges::all_of(past_trial->variants, [](const VariantRecord& variant) {
    return variant.not_run.empty() && variant.error.empty() && variant.files.empty();
  });
  const bool same =
      std::ranges::equal(past_trial->variants, planned.variants, {}, &VariantRecord::name);
  return whole && same ? &*past_trial : nullptr;
}

Ns Resumed::time_of(const TrialRecord& trial) const {
  const auto place = static_cast<std::size_t>(&trial - report_.trials.data());
  return place < report_.run.trial_ns.size() ? report_.run.trial_ns[place] : 0;
}

}  // namespace tidemark
