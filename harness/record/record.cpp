#include "harness/record/record.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

namespace tidemark {

std::string setting_text(const Setting& setting) {
  const auto* number = std::get_if<std::int64_t>(&setting);
  return number != nullptr ? std::to_string(*number) : std::get<std::string>(setting);
}

const Phase* RankRecord::phase(const std::string& name) const {
  if (steps.empty()) return nullptr;
  const auto& phases = steps.back().phases;
  auto match = std::ranges::find(phases, name, &Phase::name);
  return match == phases.end() ? nullptr : &*match;
}

const Moment* RankRecord::moment(const std::string& name) const {
  if (steps.empty()) return nullptr;
  const auto& moments = steps.back().moments;
  auto match = std::ranges::find(moments, name, &Moment::name);
  return match == moments.end() ? nullptr : &*match;
}

Bytes RankRecord::peak(Statistic statistic) const {
  Bytes highest = 0;
  if (!steps.empty())
    for (const auto& phase : steps.back().phases)
      highest = std::max(highest, phase[statistic].peak);
  return highest;
}

std::string TrialRecord::name() const {
  if (program) return "program under " + schedule;
  return scenario + "/" + size + "/r" + std::to_string(ranks) + "/" + name_of(mode) + "/" +
         schedule;
}

std::string installation_of(const RunRecord& run) {
  return fmt::format("tidemark {} ({}), torch {}, {} ({})", run.tidemark, run.git, run.torch,
                     run.device_kind, run.profile);
}

std::optional<Fit> fit_of(const RunRecord& run, const VariantRecord& variant) {
  if (run.profile_bytes == 0 || variant.ranks.empty()) return std::nullopt;
  Fit fit{run.profile, run.profile_bytes, 0};
  for (const RankRecord& rank : variant.ranks)
    for (const Step& step : rank.steps)
      for (const Phase& phase : step.phases)
        fit.reserved = std::max(fit.reserved, phase[Statistic::reserved].peak);
  return fit;
}

Course course_of(const TrialRecord& trial) {
  if (!trial.skipped.empty()) return Course::skipped;
  if (trial.not_run.empty()) return Course::finished;
  const bool began = std::ranges::any_of(
      trial.variants, [](const VariantRecord& variant) { return variant.not_run.empty(); });
  return began ? Course::cut_short : Course::not_run;
}

std::string error_text(const RankError& error) {
  return error.place.empty() ? error.text : fmt::format("{} [{}]", error.text, error.place);
}

std::string errors_text(const std::vector<RankError>& errors) {
  std::vector<std::string> all;
  for (const RankError& one : errors)
    all.push_back(fmt::format("rank {}: {}", one.rank, error_text(one)));
  return fmt::format("{}", fmt::join(all, "; "));
}

TrialRecord program_trial(std::vector<std::string> words, Mode mode, const std::string& schedule,
                          int ranks) {
  TrialRecord out;
  out.scenario = "program", out.size = "exec", out.schedule = schedule;
  out.mode = mode, out.ranks = ranks;
  out.program.emplace().words = std::move(words);
  return out;
}

bool Report::of_programs() const {
  return !trials.empty() && std::ranges::all_of(trials, [](const TrialRecord& trial) {
    return trial.program.has_value();
  });
}

int Report::count(Status status) const {
  int n = 0;
  for (const auto& trial : trials)
    for (const auto& verdict : trial.verdicts) n += verdict.status == status;
  return n;
}

int Report::count(Course course) const {
  return static_cast<int>(std::ranges::count(trials, course, course_of));
}

bool Report::complete() const {
  return run.ended.empty() && count(Course::finished) == static_cast<int>(trials.size()) &&
         std::ranges::all_of(trials, [](const TrialRecord& trial) {
           return std::ranges::all_of(trial.variants, &std::string::empty, &VariantRecord::error);
         });
}

int Report::exit_code() const {
  if (of_programs()) return exit_code_of_programs();
  bool broke = !run.ended.empty();
  for (const auto& trial : trials) {
    broke |= !trial.not_run.empty();
    for (const auto& variant : trial.variants) broke |= !variant.error.empty();
  }
  if (run.interrupted) return 130;
  if (trials.empty()) return 4;
  const int skipped = count(Course::skipped);
  if (broke) return 3;
  if (skipped > 0 && run.require_all) return 1;
  if (skipped == static_cast<int>(trials.size())) return 77;
  if (count(Status::fail) > 0 || !run.faults.empty()) return 1;
  // Trials ran and nothing was judged: that proves nothing, and must not look like success.
  return count(Status::pass) > 0 ? 0 : 4;
}

int Report::exit_code_of_programs() const {
  if (run.interrupted) return 130;
  bool measured = false;
  for (const TrialRecord& trial : trials) {
    if (trial.program->exit_code != 0) return trial.program->exit_code;
    measured = measured || !trial.program->processes.empty();
  }
  if (!run.ended.empty()) return 3;
  if (count(Status::fail) > 0) return kCheckFailed;
  return measured || count(Status::pass) > 0 ? 0 : 4;
}

}  // namespace tidemark
