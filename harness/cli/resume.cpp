#include "harness/cli/resume.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "harness/cli/checkpoint.h"
#include "harness/cli/salvage.h"
#include "harness/record/json.h"

namespace tidemark {
namespace {

// The words that decide what a run measures: not where it writes, and not how it looks.
std::string arguments_of(const RunRecord& run) {
  std::vector<std::string> words;
  for (std::size_t i = 1; i < run.argv.size(); ++i) {
    const std::string& word = run.argv[i];
    const auto is = [&](const std::string& flag) {
      return word == flag || word.starts_with(flag + "=");
    };
    if (is("--force")) continue;
    if (!is("--out") && !is("--resume") && !is("--history") && !is("--color"))
      words.push_back(word);
    else if (word.find('=') == word.npos)
      ++i;  // its value
  }
  return fmt::format("{}", fmt::join(words, " "));
}

// The variables of a user, without those that tidemark sets for its ranks.
std::string text_of(const std::map<std::string, std::string>& environment) {
  constexpr std::array kOwn{"LIVE",   "NCCL_WAITS", "ON",       "OUT",     "RESUME",
                            "RUN_ID", "STAGED",     "TERMINAL", "TIMEOUT", "WORLD"};
  std::string text;
  for (const auto& [name, value] : environment) {
    const bool own = std::ranges::any_of(
        kOwn, [&](const char* one) { return name == std::string("TIDEMARK_") + one; });
    if (!own) text += (text.empty() ? "" : " ") + name + "=" + value;
  }
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
  const auto same = [&](const std::string& what, const std::string& then, const std::string& here) {
    if (then != here)
      throw UsageError(fmt::format("--resume: {} has other {}: '{}', and this run has '{}'",
                                   folder.string(), what, then, here));
  };
  same("arguments", arguments_of(before), arguments_of(now));
  same("software", installation_of(before), installation_of(now));
  same("bytes of each GPU", std::to_string(before.capacity_bytes),
       std::to_string(now.capacity_bytes));
  same("variables", text_of(before.env), text_of(now.env));
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
