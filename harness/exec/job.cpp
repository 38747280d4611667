#include "harness/exec/job.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "harness/errors.h"
#include "harness/exec/records.h"
#include "harness/exec/wishes.h"
#include "harness/memory/highest_peak.h"
#include "harness/record/file.h"
#include "harness/record/json.h"
#include "harness/record/json_node.h"
#include "harness/record/one_line.h"
#include "harness/record/write.h"
#include "harness/virtual/device/text.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

// The folder appears with its content, or another process's stands there.
bool publish(const fs::path& folder, const Launcher& launcher, const Report& plan) {
  std::string draft = folder.parent_path() / ("." + folder.filename().string() + "-XXXXXX");
  if (mkdtemp(draft.data()) == nullptr)
    throw UsageError(fmt::format("exec: no folder can be made in {}: {}",
                                 folder.parent_path().string(), std::strerror(errno)));
  fs::permissions(draft, fs::perms::all & ~fs::perms::others_write & ~fs::perms::group_write);
  const nlohmann::ordered_json text = {{"launcher", launcher.name},
                                       {"job", launcher.job},
                                       {"size", launcher.size},
                                       {"report", to_json(plan)}};
  write_bytes(fs::path(draft) / "job", text.dump());
  std::error_code error;
  fs::rename(draft, folder, error);
  if (error) fs::remove_all(draft);
  return !error;
}

}  // namespace

Job::Job(fs::path folder) : folder_(std::move(folder)) {
  const std::string file = folder_ / "job";
  const std::string bytes = read_bytes(file);
  const auto text = json_of_others(bytes, file);
  if (!text || !text->root().contains("report"))
    throw std::runtime_error(file + " is not what tidemark exec writes: remove " +
                             folder_.string());
  const Node job(text->root(), file);
  const auto of = [&](const char* key) { return job.has(key) ? job[key].text() : ""; };
  launcher_ = {of("launcher"), of("job"), 0, job.has("size") ? job["size"].small_integer() : 0};
  plan_ = parse_report(job["report"].value().source(), file);
}

Job Job::join(const fs::path& folder, const Launcher& launcher, const Report& plan,
              const std::string& flag, const std::function<void()>& begin) {
  constexpr auto kPatience = std::chrono::seconds(5);  // until a network's file system shows it
  const auto until = Clock::now() + kPatience;
  while (!fs::exists(folder / "job")) {
    begin();
    if (publish(folder, launcher, plan)) break;
    if (Clock::now() > until)
      throw UsageError(fmt::format("exec: {}: {} is there and is not that of a job: name another",
                                   flag, folder.string()));
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
  }
  Job job(folder);
  if (job.launcher_.text() != launcher.text() || job.launcher_.size != launcher.size)
    throw UsageError(fmt::format(
        "exec: {} belongs to another job, {} with {} processes, and this is one of {} of {}: name "
        "another place, or, if that job has ended, write its report by tidemark report {}",
        flag, job.launcher_.text(), job.launcher_.size, launcher.size, launcher.text(),
        shell_word(folder.filename() == kJobFolder ? folder.parent_path() : folder)));
  job.launcher_ = launcher;
  const fs::path mine = folder / std::to_string(launcher.rank);
  std::error_code error;
  if (!fs::create_directory(mine, error))
    throw UsageError(
        error ? fmt::format("exec: {}: {} cannot be made: {}", flag, mine.string(), error.message())
              : fmt::format("exec: {} has process {} of {} already: one job runs tidemark exec "
                            "once for a report; name another place",
                            flag, launcher.rank, launcher.text()));
  job.alive_ = lock_file(mine / "alive", LOCK_EX | LOCK_NB);
  if (!job.alive_)
    throw UsageError(
        fmt::format("exec: {}: {} cannot be locked ({}): name a place on a file "
                    "system with locks",
                    flag, (mine / "alive").string(), std::strerror(errno)));
  return job;
}

fs::path Job::begin(const std::string& schedule) const {
  const fs::path folder = folder_ / std::to_string(launcher_.rank) / schedule;
  fs::create_directory(folder);
  return folder;
}

void Job::end(const std::string& schedule, int exit_code) const {
  write_bytes(folder_ / std::to_string(launcher_.rank) / schedule / "exit_code",
              std::to_string(exit_code));
}

Held Job::end() {
  Held guard = lock();
  write_bytes(folder_ / std::to_string(launcher_.rank) / "ended", "");
  alive_ = Held();
  return guard;
}

Held Job::lock() const {
  Held guard = lock_file(folder_ / "lock", LOCK_EX);
  if (!guard)
    throw std::runtime_error(fmt::format("exec: {} cannot be locked: {}",
                                         (folder_ / "lock").string(), std::strerror(errno)));
  return guard;
}

bool Job::ended(int rank) const { return fs::exists(folder_ / std::to_string(rank) / "ended"); }

bool Job::complete() const {
  for (int rank = 0; rank < launcher_.size; ++rank)
    if (!ended(rank)) return false;
  return true;
}

bool Job::alive() const {
  for (int rank = 0; rank < launcher_.size; ++rank) {
    if (!ended(rank) && is_locked(folder_ / std::to_string(rank) / "alive")) return true;
  }
  return false;
}

std::vector<Verdict> Job::unfinished() const {
  std::vector<Verdict> verdicts;
  for (int rank = 0; rank < launcher_.size; ++rank) {
    if (ended(rank)) continue;
    const bool begun = fs::exists(folder_ / std::to_string(rank));
    verdicts.push_back(
        not_known(rank, fmt::format("unknown: process {} of the {} that {} started {}", rank,
                                    launcher_.size, launcher_.name,
                                    begun ? "had not ended, and its peaks are those until then"
                                          : "had not begun")));
  }
  return verdicts;
}

void Job::write_snapshots_to(const fs::path& report) const {
  for (const TrialRecord& trial : plan_.trials)
    for (int rank = 0; rank < launcher_.size; ++rank) {
      const fs::path folder = folder_ / std::to_string(rank) / trial.schedule;
      if (fs::is_directory(folder)) write_snapshots(folder, snapshots_of(report, trial.schedule));
    }
}

Report Job::report() const {
  Report report = plan_;
  std::vector<TrialRecord> begun;
  for (TrialRecord& trial : report.trials) {
    ProgramRecord& program = *trial.program;
    bool any = false;
    for (int rank = 0; rank < launcher_.size; ++rank) {
      const fs::path folder = folder_ / std::to_string(rank) / trial.schedule;
      if (!fs::is_directory(folder / "users")) continue;
      any = true;
      for (ProcessRecord& process : read_records(folder, folder / "users")) {
        if (process.devices.empty()) process.rank = rank;
        // A launcher may give each of its processes a GPU, and that the same name.
        if (launcher_.size > 1 && process.gpus.size() == 1) process.gpus.clear();
        program.processes.push_back(std::move(process));
      }
      // That of a program, rather than that of its end by the launcher's signal.
      if (int code = 0; TextIn(first_bytes(folder / "exit_code", 20)) >> code && code != 0)
        if (program.exit_code == 0 || (program.exit_code > 128 && code < 128))
          program.exit_code = code;
    }
    if (!any) continue;
    put_by_rank(program.processes);
    share_gpus(program, report.run.context_bytes);
    trial.verdicts = unfinished();
    begun.push_back(std::move(trial));
  }
  report.trials = std::move(begun);
  return report;
}

void Job::remove() const {
  std::error_code ignored;
  fs::remove(folder_ / "job", ignored);  // whatever of the rest stays is not a job
  fs::remove_all(folder_, ignored);
}

}  // namespace tidemark
