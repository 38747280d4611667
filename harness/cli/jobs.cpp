#include "harness/cli/jobs.h"

#include <fmt/format.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "harness/cli/checkpoint.h"
#include "harness/cli/deliver.h"
#include "harness/cli/salvage.h"
#include "harness/errors.h"
#include "harness/ranks/processes.h"
#include "harness/record/file.h"
#include "harness/run/bracket.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

constexpr const char* kFolder = "jobs";

fs::path folder_of_job(const fs::path& jobs, std::size_t index) {
  return jobs / std::to_string(index);
}

json parameters(const std::vector<std::string>& options) {
  json all = json::object();
  for (const std::string& option : options) {  // NAME=VALUE, as options.cpp has checked
    const auto equals = option.find('=');
    const std::string value = option.substr(equals + 1);
    const json number = json::parse(value, nullptr, false);
    all[option.substr(0, equals)] = number.is_number() ? number : json(value);
  }
  return all;
}

// 0 when all have ended, 130 when this process was interrupted; another code, after a line that
// says why, when nothing was submitted.
int submit_and_wait(const fs::path& jobs) {
  const char* python = std::getenv("TIDEMARK_PYTHON");
  const std::string words = python != nullptr && *python != 0 ? python : "python3";
  const fs::path script =
      fs::read_symlink("/proc/self/exe").parent_path() / "virtual/python/tidemark_jobs.py";
  const ProcessesEnd end = run_processes({{"jobs", {"/usr/bin/env", words, script, jobs}, {}}}, 1,
                                         /*together=*/true, jobs);
  if (end.signal != 0) return 130;
  if (end.code == 127)
    fmt::print(stderr, "error: --executor needs Python: there is no {}\n", words);
  return end.code == 0 || end.code == 2 ? end.code : 3;
}

// What must be alike in reports that become one.
std::string installation(const RunRecord& run) {
  return fmt::format("tidemark {} ({}), torch {}, {} ({})", run.tidemark, run.git, run.torch,
                     run.device_kind, run.profile);
}

void require_same_installation(const RunRecord& one, const RunRecord& other) {
  if (installation(one) == installation(other)) return;
  throw Unavailable(fmt::format("--executor: the jobs are not of one installation: on host {} it "
                                "is {}, on host {} {}",
                                one.host, installation(one), other.host, installation(other)),
                    3);
}

// What the ranks of a job wrote themselves, and a report cannot write again.
void take_files(const fs::path& from, const fs::path& to) {
  for (const char* kind : {"allocator", "numbers", "snapshot", "trace"}) {
    if (!fs::exists(from / kind)) continue;
    for (const auto& entry : fs::recursive_directory_iterator(from / kind)) {
      const fs::path place = to / fs::relative(entry.path(), from);
      if (!entry.is_regular_file() || fs::exists(place)) continue;
      fs::create_directories(place.parent_path());
      fs::rename(entry.path(), place);
    }
  }
}

}  // namespace

void take_job(Options& options) {
  const char* job = std::getenv(kJob);
  if (job == nullptr || options.command != "run") return;
  std::string folder(job);
  options.only = std::stoi(folder);
  options.out = folder.substr(folder.find(' ') + 1);
  options.executor.clear();
  options.history = false;
}

int run_as_jobs(const Options& options, const std::vector<PlannedTrial>& planned, int ranks,
                const fs::path& folder, RunRecord run) {
  const fs::path jobs = folder / kFolder;
  json plan = {{"executor", options.executor},
               {"options", parameters(options.executor_options)},
               {"cpus", options.stand_for >= 0 ? 1 : ranks},
               {"jobs", json::array()}};
  std::vector<std::string> command{fs::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), run.argv.begin() + 1, run.argv.end());
  std::vector<std::size_t> submitted;
  for (std::size_t index = 0; index < planned.size(); ++index) {
    if (!planned[index].unfit.empty()) continue;
    submitted.push_back(index);
    const fs::path place = folder_of_job(jobs, index);
    plan["jobs"].push_back({{"name", record_of(planned[index]).name()},
                            {"command", command},
                            {"environment", {{kJob, fmt::format("{} {}", index, place.string())}}},
                            {"folder", place.string()}});
  }
  fs::create_directories(jobs);
  std::ofstream(jobs / "jobs.json") << plan.dump(1);
  const auto begin = std::chrono::steady_clock::now();
  const int submitted_code = submit_and_wait(jobs);
  if (submitted_code != 0 && submitted_code != 130) {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
    return submitted_code;
  }
  run.interrupted = submitted_code == 130;
  const json ended = json::parse(fs::exists(jobs / "ended.json") ? read_bytes(jobs / "ended.json")
                                                                 : std::string("[]"));
  Report report{run, {}};
  for (const auto& each : planned) report.trials.push_back(record_of(each));
  report.run.trial_ns.assign(planned.size(), 0);
  std::optional<RunRecord> first;
  std::size_t lost = 0;
  for (std::size_t job = 0; job < submitted.size(); ++job) {
    const std::size_t index = submitted[job];
    const fs::path place = folder_of_job(jobs, index);
    TrialRecord& trial = report.trials[index];
    try {
      finish_run(place);  // its time was up, or it was killed
    } catch (const std::runtime_error&) {
      // Nothing of it was finished, or Slurm has not ended it yet.
    }
    if (fs::exists(place / "report.json")) {
      Report one = read_whole(place);
      if (first) require_same_installation(*first, one.run);
      if (!first) first = one.run;
      trial = std::move(one.trials.at(0));
      report.run.trial_ns[index] = one.run.trial_ns.at(0);
      report.run.faults.insert(report.run.faults.end(), one.run.faults.begin(),
                               one.run.faults.end());
      take_files(place, folder);
      if (trial.not_run.empty()) continue;
    } else {
      const json end = job < ended.size() ? ended[job] : json::object();
      const std::string said = end.value("said", "");
      trial.not_run = fmt::format("its job {} left no report: {}{}", end.value("job", ""),
                                  end.value("state", "not ended"), said.empty() ? "" : ", " + said);
      for (VariantRecord& variant : trial.variants) variant.not_run = trial.not_run;
    }
    ++lost;
  }
  if (first) {
    for (auto [mine, its] : {std::pair{&report.run.mpi, &first->mpi},
                             {&report.run.sharing, &first->sharing},
                             {&report.run.arithmetic, &first->arithmetic},
                             {&report.run.host, &first->host}})
      *mine = *its;
  }
  judge_brackets(report.trials);
  if (lost > 0)
    report.run.ended = fmt::format("{} of {} jobs did not finish their trial ({})", lost,
                                   submitted.size(), (jobs / "logs").string());
  report.run.duration_ns =
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  const int code = deliver(report, folder, options);
  std::error_code ignored;
  if (lost == 0) fs::remove_all(jobs, ignored);
  return code;
}

}  // namespace tidemark
