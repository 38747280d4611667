#include "harness/exec/findings.h"

#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <filesystem>
#include <iterator>

#include "harness/print.h"
#include "harness/ranks/terminal.h"
#include "harness/record/json.h"
#include "reports/folder.h"
#include "reports/program/text.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

void say_peaks(const ProgramRecord& program) {
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
  say_peaks(program);
  if (!exec_.report.empty()) {
    peaks_.push_back(highest_peak(exec_.report, trial.schedule));
    trial.alive = alive_at(peaks_.back());
  }
  std::vector<Verdict> verdicts = verdicts_of(program, exec_.wishes);
  failed_ =
      failed_ || std::ranges::find(verdicts, Status::fail, &Verdict::status) != verdicts.end();
  std::ranges::move(verdicts, std::back_inserter(trial.verdicts));
  report_.trials.push_back(std::move(trial));
}

int Findings::finish(const Report& base, Ns duration) {
  report_.run.duration_ns = duration;
  std::vector<TrialRecord>& trials = report_.trials;
  if (!peaks_.empty()) say(alive_text(peaks_, report_.run.capacity_bytes));
  say(bracket_text(trials));
  PeakRegressions more;
  if (!exec_.base.empty()) {
    more = grown(base, report_, exec_.thresholds);
    if (more.failures.empty())
      say(paint_.green("--compare: no peak is higher than in " + exec_.base) + "\n");
    failed_ = failed_ || !more.failures.empty();
    std::ranges::copy(more.failures, std::back_inserter(trials.back().verdicts));
  }
  int code = 0;
  for (const TrialRecord& one : trials) {
    const std::string where = trials.size() > 1 ? one.schedule + ": " : "";
    for (const std::string& line : passed_checks(one.verdicts))
      say(paint_.green(where + line) + "\n");
    for (const Verdict& verdict : one.verdicts)
      if (verdict.status == Status::fail)
        say(paint_.red("FAIL") + " " + where + verdict.why + "\n");
    if (code == 0) code = one.program->exit_code;
  }
  if (!more.failures.empty()) say(more.causes);
  write(exec_.base.empty() ? nullptr : &more.changes);
  return code == 0 && failed_ ? 1 : code;
}

void Findings::write(const Changes* changes) const {
  const std::string text = json_text(report_);
  if (!exec_.report.empty()) {
    std::vector<File> files = program_files(report_, peaks_, exec_.report, changes);
    files.push_back({"report.json", text});
    write_files(exec_.report, files, "name another folder (--report)");
    if (exec_.own_folder) point_to(exec_.report, "latest");
  }
  if (!exec_.out.empty()) {
    const fs::path out = fs::absolute(exec_.out);
    write_files(out.parent_path(), {{out.filename().string(), text}}, "name another file (--out)");
  }
  if (!exec_.report.empty())
    say(paint_.bold("report: " + (fs::path(exec_.report) / "report.html").string()) + "\n");
}

}  // namespace tidemark
