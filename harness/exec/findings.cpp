#include "harness/exec/findings.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>
#include <map>

#include "harness/exec/outcome.h"
#include "harness/print.h"
#include "harness/ranks/terminal.h"
#include "harness/record/json.h"
#include "harness/record/units.h"
#include "reports/annotation.h"
#include "reports/folder.h"
#include "reports/program/alive.h"
#include "reports/program/finding.h"
#include "reports/program/text.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

void say_peaks(const ProgramRecord& program) {
  std::map<int, std::int64_t> by_rank;
  for (const ProcessRecord& process : program.processes)
    if (process.rank && !process.devices.empty()) ++by_rank[*process.rank];
  for (const auto& [rank, count] : by_rank)
    if (count > 1)
      say(fmt::format(
          "tidemark: {} are rank {}, each with a row of its own: it was restarted, or a "
          "launcher runs once for each rank\n",
          plural(count, "process", "processes"), rank));
  if (program.processes.empty())
    say("tidemark: no process of the program has recorded CUDA memory: none has used it, or it has "
        "not the environment of tidemark exec (env -i and sudo clear it)\n");
  else
    say(decisions(program) + table(program) + unknowns(program));
}

}  // namespace

void say(const std::string& text) { print_text(stderr, text); }

Findings::Findings(const ExecOptions& exec, RunRecord run)
    : exec_(exec), paint_{in_color(exec.color, STDERR_FILENO)} {
  report_.run = std::move(run);
}

void Findings::add(TrialRecord trial) {
  ProgramRecord& program = *trial.program;
  if (!exec_.report.empty()) {
    peaks_.push_back(highest_peak(exec_.report, trial.schedule));
    trial.alive = alive_at(peaks_.back());
  }
  std::vector<Verdict> verdicts = verdicts_of(program, exec_.wishes);
  if (exec_.wishes.no_growth) verdicts.push_back(no_growth(program, peaks_.back()));
  failed_ =
      failed_ || std::ranges::find(verdicts, Status::fail, &Verdict::status) != verdicts.end();
  std::ranges::move(verdicts, std::back_inserter(trial.verdicts));
  report_.trials.push_back(std::move(trial));
}

/// The answer first: out of memory, grows, fits; then the peaks of each schedule.
void Findings::tell() {
  settle_capacity(report_);
  const HighestPeak none;
  for (std::size_t i = 0; i < report_.trials.size(); ++i) {
    TrialRecord& one = report_.trials[i];
    const HighestPeak& peak = peaks_.empty() ? none : peaks_[i];
    if (exec_.schedules.size() > 1) say("schedule " + one.schedule + ":\n");
    one.program->findings = outcome_of(one, peak, report_.run);
    one.program->finding = finding_of(one, peak, report_.run);
    say(paint_.bold("tidemark: " + one.program->finding->text) + "\n");
    for (const std::string& line : one.program->findings) say("tidemark: " + line + "\n");
    say_peaks(*one.program);
  }
}

int Findings::finish(const Report& base, Ns duration) {
  report_.run.duration_ns = duration;
  std::vector<TrialRecord>& trials = report_.trials;
  tell();
  const bool needs = std::ranges::any_of(
      trials, [&](const TrialRecord& one) { return knows_need(*one.program, report_.run); });
  if (!peaks_.empty()) say(alive_text(peaks_, needs));
  say(bracket_text(trials));
  PeakRegressions more;
  if (!exec_.base.empty()) {
    more = grown(base, report_, exec_.thresholds, exec_.base, exec_.report);
    if (more.failures.empty())
      say(paint_.green("--compare: no peak is higher than in " + exec_.base) + "\n");
    failed_ = failed_ || !more.failures.empty();
    std::ranges::copy(more.failures, std::back_inserter(trials.back().verdicts));
  }
  int code = 0;
  for (const TrialRecord& one : trials) {
    const std::string where = trials.size() > 1 ? one.schedule + ": " : "";
    for (const std::string& line : passed_checks(one.verdicts, has_outside(*one.program)))
      say(paint_.green(where + line) + "\n");
    for (const FailedCheck& check : failed_checks(one.verdicts))
      say(paint_.red("FAIL") + " " + where + check.line + "\n");
    if (code == 0) code = one.program->exit_code;
  }
  say(more.causes);  // of a peak that is lower too: what was saved
  annotate();
  write(exec_.base.empty() ? nullptr : &more.changes);
  advise();
  return code == 0 && failed_ ? kCheckFailed : code;
}

/// In a job of CI a line for each program that ended badly and each check that failed, at the line
/// of the program that has most of the memory.
void Findings::annotate() const {
  if (!in_ci()) return;
  for (std::size_t i = 0; i < report_.trials.size(); ++i) {
    const TrialRecord& trial = report_.trials[i];
    const ProgramRecord& program = *trial.program;
    const HighestPeak* peak = i < peaks_.size() ? &peaks_[i] : nullptr;
    const std::string most =
        trial.alive && !trial.alive->parts.empty() ? trial.alive->parts.front().site : "";
    const StepGrowth* growth = peak != nullptr ? worst_growth(*peak) : nullptr;
    const std::string grows =
        growth != nullptr && !growth->parts.empty() ? growth->parts.front().site : most;
    if (program.exit_code != 0)
      say(annotation_line(
          annotation_at(peak != nullptr && !peak->ooms.empty() ? peak->ooms.front().site : "",
                        "tidemark exec", program.finding->text)));
    for (const FailedCheck& check : failed_checks(trial.verdicts))
      say(annotation_line(annotation_at(check.flag == "--no-growth" ? grows : most,
                                        check.flag.empty() ? "tidemark exec" : check.flag,
                                        check.line)));
  }
}

/// The last line where memory ran out: the command that tries what would help.
void Findings::advise() const {
  for (const TrialRecord& one : report_.trials)
    for (const ProcessRecord& process : one.program->processes)
      for (const DeviceRecord& device : process.devices)
        if (device.ooms > 0 && one.program->exit_code != 0)
          return say("what would help: " +
                     advice_command(exec_.gpu, exec_.of_advise(), exec_.program) + "\n");
}

void Findings::write(const Changes* changes) const {
  const TextMaker text = report_text(report_);
  if (!exec_.report.empty()) {
    std::vector<File> files = program_files(report_, peaks_, exec_.report, changes);
    files.push_back({.path = "report.json", .text = text});
    write_files(exec_.report, files, "name another folder (--report)");
    if (exec_.own_folder) point_to(exec_.report, "latest");
  }
  if (!exec_.out.empty()) {
    const fs::path out = fs::absolute(exec_.out);
    write_files(out.parent_path(), {{.path = out.filename().string(), .text = text}},
                "name another file (--out)");
  }
  if (!exec_.report.empty())
    say(paint_.bold("report: " + (fs::path(exec_.report) / "report.html").string()) + "\n");
}

}  // namespace tidemark
