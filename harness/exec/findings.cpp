#include "harness/exec/findings.h"

#include <unistd.h>

#include <cstdio>
#include <filesystem>

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

void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

Findings::Findings(const ExecOptions& exec, RunRecord run)
    : exec_(exec), paint_{in_color(exec.color, STDERR_FILENO)} {
  report_.run = std::move(run);
}

void Findings::add(ProgramRecord program) {
  say_peaks(program);
  if (!exec_.report.empty()) {
    peaks_.push_back(highest_peak(exec_.report, program.schedule));
    program.alive = alive_at(peaks_.back());
  }
  const std::vector<std::string> lines = failures(program, exec_.wishes);
  failed_ = failed_ || !lines.empty();
  program.failures.insert(program.failures.end(), lines.begin(), lines.end());
  report_.programs.push_back(std::move(program));
}

int Findings::finish(const Report& base, Ns duration) {
  report_.run.duration_ns = duration;
  std::vector<ProgramRecord>& programs = report_.programs;
  if (!peaks_.empty()) say(alive_text(peaks_, report_.run.capacity_bytes));
  say(bracket_text(programs));
  PeakRegressions more;
  if (!exec_.base.empty()) {
    more = grown(base, report_, exec_.thresholds);
    if (more.failures.empty())
      say(paint_.green("--compare: no peak is higher than in " + exec_.base) + "\n");
    failed_ = failed_ || !more.failures.empty();
    programs.back().failures.insert(programs.back().failures.end(), more.failures.begin(),
                                    more.failures.end());
  }
  int code = 0;
  for (const ProgramRecord& one : programs) {
    for (const std::string& line : one.failures)
      say(paint_.red("FAIL") + " " + (programs.size() > 1 ? one.schedule + ": " : "") + line +
          "\n");
    if (code == 0) code = one.exit_code;
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
