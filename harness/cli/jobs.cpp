#include "harness/cli/jobs.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <string>

#include "harness/cli/checkpoint.h"
#include "harness/cli/deliver.h"
#include "harness/cli/salvage.h"
#include "harness/errors.h"
#include "harness/print.h"
#include "harness/ranks/submitted.h"
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

void require_same_installation(const RunRecord& one, const RunRecord& other) {
  if (installation_of(one) == installation_of(other)) return;
  throw Unavailable(fmt::format("--executor: the jobs are not of one installation: on host {} it "
                                "is {}, on host {} {}",
                                one.host, installation_of(one), other.host, installation_of(other)),
                    3);
}

// The files that the ranks of a job wrote themselves: a report cannot write them again.
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

// The trials of the plan that jobs run, by their places in it.
std::vector<std::size_t> trials_that_run(const std::vector<PlannedTrial>& planned) {
  std::vector<std::size_t> out;
  for (std::size_t index = 0; index < planned.size(); ++index)
    if (planned[index].unfit.empty()) out.push_back(index);
  return out;
}

json job_of(const PlannedTrial& planned, std::size_t index, const fs::path& place,
            const std::vector<std::string>& argv) {
  std::vector<std::string> command{fs::read_symlink("/proc/self/exe").string()};
  command.insert(command.end(), argv.begin() + 1, argv.end());
  return {{"name", record_of(planned).name()},
          {"command", command},
          {"environment", {{kJob, fmt::format("{} {}", index, place.string())}}},
          {"folder", place.string()}};
}

// The report that a job left in `place`; none if it left none. A job that was cut short has left
// what it had finished.
std::optional<Report> report_of(const fs::path& place) {
  try {
    finish_run(place);
  } catch (const std::runtime_error&) {
    // It had finished nothing, or Slurm has not ended it yet.
  }
  if (!fs::exists(place / "report.json")) return std::nullopt;
  return read_whole(place);
}

std::string why_not_run(const json& end) {
  const std::string message = end.value("message", "");
  return fmt::format("its job {} left no report: {}{}", end.value("job", ""),
                     end.value("state", "not ended"), message.empty() ? "" : ", " + message);
}

// Puts the trials of the jobs into `report`, which has them as planned. Returns how many jobs did
// not finish theirs.
std::size_t gather(const fs::path& folder, const std::vector<std::size_t>& trials, Report& report) {
  const fs::path jobs = folder / kFolder, file = jobs / "ended.json";
  const json ended = fs::exists(file) ? json::parse(read_bytes(file)) : json::array();
  std::optional<RunRecord> first;
  std::size_t lost = 0;
  for (std::size_t job = 0; job < trials.size(); ++job) {
    const std::size_t index = trials[job];
    const fs::path place = folder_of_job(jobs, index);
    TrialRecord& trial = report.trials[index];
    if (auto one = report_of(place)) {
      if (!first) first = one->run;
      require_same_installation(*first, one->run);
      trial = std::move(one->trials.at(0));
      report.run.trial_ns[index] = one->run.trial_ns.at(0);
      std::ranges::move(one->run.faults, std::back_inserter(report.run.faults));
      take_files(place, folder);
    } else {
      trial.not_run = why_not_run(job < ended.size() ? ended[job] : json::object());
      for (VariantRecord& variant : trial.variants) variant.not_run = trial.not_run;
    }
    if (!trial.not_run.empty()) ++lost;
  }
  if (first) {
    report.run.mpi = first->mpi;
    report.run.sharing = first->sharing;
    report.run.arithmetic = first->arithmetic;
    report.run.host = first->host;
  }
  return lost;
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
  const std::vector<std::size_t> trials = trials_that_run(planned);
  json plan = {{"executor", options.executor},
               {"options", job_parameters(options.executor_options)},
               {"cpus", options.as_rank >= 0 ? 1 : ranks},
               {"jobs", json::array()}};
  for (const std::size_t index : trials)
    plan["jobs"].push_back(job_of(planned[index], index, folder_of_job(jobs, index), run.argv));
  fs::create_directories(jobs);
  write_bytes(jobs / "jobs.json", plan.dump(1));
  const auto begin = std::chrono::steady_clock::now();
  const int submitted = submit_and_wait(jobs);
  std::error_code ignored;
  if (submitted != 0 && submitted != 130) {
    fs::remove_all(folder, ignored);
    return submitted;
  }
  run.interrupted = submitted == 130;
  Report report{std::move(run), {}};
  for (const auto& each : planned) report.trials.push_back(record_of(each));
  report.run.trial_ns.assign(planned.size(), 0);
  const std::size_t lost = gather(folder, trials, report);
  judge_brackets(report.trials);
  if (lost > 0)
    report.run.ended = fmt::format("{} of {} jobs did not finish their trial ({})", lost,
                                   trials.size(), (jobs / "logs").string());
  report.run.duration_ns =
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - begin).count();
  const int code = deliver(report, folder, options);
  if (lost == 0) fs::remove_all(jobs, ignored);
  return code;
}

}  // namespace tidemark
