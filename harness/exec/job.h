// The processes of one job (mpirun, srun, torchrun) that report together, and the folder that they
// share for it:
//
// job       which job it is, and what all its processes have alike; written by the first
// R/        records of the launcher's process R, which alone makes and writes this folder
// R/alive   locked (flock) by process R as long as it lives
// R/ended   written by process R when its records are complete
// lock      locked (flock) by a process that ends or writes the report
//
// A process that ends writes the report if all have ended, if it failed (the launcher then kills
// the others), or if no other is alive. The report has whatever all processes have recorded until
// then, so a report that was early is replaced by that of the next process. The last one removes
// the folder. If it is killed first, `tidemark report` writes the report from the folder.
#pragma once

#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "harness/ranks/launcher.h"
#include "harness/record/lock.h"
#include "harness/record/record.h"

namespace tidemark {

class Job {
 public:
  /// Reads the folder. Throws std::runtime_error in one line if it is not that of a job.
  explicit Job(std::filesystem::path folder);

  /// Joins the job, or begins it if there is none: `begin` then throws UsageError if the report
  /// could not be written. `plan` is what all processes have alike: the run, and a trial for each
  /// schedule. Throws UsageError, which begins with `flag`, if the folder belongs to another job,
  /// has this process already, or cannot be locked.
  static Job join(const std::filesystem::path& folder, const Launcher& launcher, const Report& plan,
                  const std::string& flag, const std::function<void()>& begin);

  /// The folder of this process's records under a schedule, which it makes.
  std::filesystem::path begin(const std::string& schedule) const;
  void end(const std::string& schedule, int exit_code) const;
  /// Waits for the lock, returns it, and notes that this process has ended.
  Held end();

  Held lock() const;
  bool complete() const;  // all processes have ended
  bool alive() const;     // one of those that have not ended lives
  /// Writes the snapshots of all processes into the folder of a report.
  void write_snapshots_to(const std::filesystem::path& report) const;
  /// The plan with the records of all processes. A verdict that fails names each process that
  /// has not ended.
  Report report() const;
  void remove() const;  // without the lock, which is a file of the folder

 private:
  bool ended(int rank) const;
  std::vector<Verdict> unfinished() const;

  std::filesystem::path folder_;
  Launcher launcher_;  // with the rank of this process after join()
  Report plan_;
  Held alive_;
};

}  // namespace tidemark
