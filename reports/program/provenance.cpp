#include "reports/program/provenance.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <vector>

#include "harness/record/units.h"

namespace tidemark {
namespace {

/// "2 ranks of 512", "1 process".
std::string ranks_here(const TrialRecord& trial) {
  const auto& processes = trial.program->processes;
  const auto ranks = std::ranges::count_if(
      processes, [](const ProcessRecord& one) { return one.rank.has_value(); });
  if (processes.empty()) return "no process";
  if (ranks == 0) return plural(std::ssize(processes), "process", "processes");
  return plural(ranks, "rank") + (trial.ranks > ranks ? fmt::format(" of {}", trial.ranks) : "");
}

/// A word of the command without the folders of an absolute path, which name a machine.
std::string bare(const std::string& word) {
  const std::size_t value = word.starts_with("-") ? word.find('=') + 1 : 0;
  if (word.substr(value, 1) != "/") return word;
  const std::string name = std::filesystem::path(word.substr(value)).filename();
  return word.substr(0, value) + (name.empty() ? word.substr(value) : name);
}

}  // namespace

std::string provenance(const Report& report) {
  const RunRecord& run = report.run;
  const TrialRecord& first = report.trials.front();
  std::vector<std::string> schedules, out;
  for (const TrialRecord& trial : report.trials) schedules.push_back(trial.schedule);
  if (!run.torch.empty()) out.push_back("torch " + run.torch);
  out.push_back(version_text(run));
  out.push_back(fmt::format(
      "virtual {}{}", run.profile,
      run.capacity_bytes > 0 ? " with " + bytes_text(run.capacity_bytes) + " for PyTorch" : ""));
  out.push_back(fmt::format("mode {}", name_of(first.mode)));
  out.push_back(
      fmt::format("schedule{} {}", schedules.size() > 1 ? "s" : "", fmt::join(schedules, " and ")));
  out.push_back(ranks_here(first));
  if (!run.started.empty()) out.push_back(run.started.substr(0, run.started.find('T')));
  return one_line(fmt::format("{}", fmt::join(out, ", ")));
}

std::string version_text(const RunRecord& run) {
  return fmt::format("tidemark {}{}", run.tidemark, run.git.empty() ? "" : " (" + run.git + ")");
}

std::string command_of(const Report& report) {
  return command_of(report.run, "exec", report.trials.front().program->words);
}

std::string command_of(const RunRecord& run, const std::string& command,
                       const std::vector<std::string>& program) {
  constexpr std::array kWhere{"--report", "--out", "--color"};
  std::string out = "tidemark " + command;
  const std::vector<std::string>& argv = run.argv;
  auto begin = std::ranges::find(argv, command);
  if (begin != argv.end()) ++begin;
  auto end = std::ssize(program) <= argv.end() - begin ? argv.end() - std::ssize(program) : begin;
  if (end > begin && end[-1] == "--") --end;
  for (auto word = begin; word < end; ++word) {
    const bool where = std::ranges::any_of(kWhere, [&](const std::string& flag) {
      return *word == flag || word->starts_with(flag + "=");
    });
    if (where && word->find('=') == std::string::npos && word + 1 < end &&
        !word[1].starts_with("-"))
      ++word;
    else if (!where && *word != "--force")
      out += " " + shell_word(bare(*word));
  }
  out += " --";
  for (const std::string& word : program) out += " " + shell_word(bare(word));
  return out;
}

}  // namespace tidemark
