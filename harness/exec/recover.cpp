#include "harness/exec/recover.h"

#include "harness/exec/job.h"
#include "harness/exec/outcome.h"
#include "harness/record/json.h"
#include "harness/record/write.h"
#include "reports/program/page.h"

namespace tidemark {

void recover_report(const std::filesystem::path& folder) {
  const std::filesystem::path records = folder / kJobFolder;
  if (!std::filesystem::exists(records / "job")) return;
  refuse_links(folder, kJobFolder);
  const Job job(records);
  bool alive = false;
  {
    const Held lock = job.lock();
    alive = job.alive();
    if (!alive) job.write_snapshots_to(folder);
    Report report = job.report();
    settle_capacity(report);
    if (report.trials.empty())
      throw std::runtime_error(records.string() +
                               ": no process of this job has begun its program: there is nothing "
                               "to report");
    std::vector<HighestPeak> peaks;
    for (TrialRecord& trial : report.trials) {
      peaks.push_back(highest_peak(folder, trial.schedule));
      trial.alive = alive_at(peaks.back());
      trial.program->findings = outcome_of(trial, peaks.back(), report.run);
      trial.program->finding = finding_of(trial, peaks.back(), report.run);
    }
    std::vector<File> files = program_files(report, peaks, folder);
    files.push_back({.path = "report.json", .text = report_text(report)});
    write_files(folder, files, "make the folder writable");
  }
  if (!alive) job.remove();
}

}  // namespace tidemark
