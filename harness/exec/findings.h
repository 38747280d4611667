// Findings of `tidemark exec`: what it prints of the program's peaks, its verdicts and its files.
#pragma once

#include <string>
#include <vector>

#include "harness/exec/options.h"
#include "harness/record/record.h"
#include "reports/paint.h"
#include "reports/program/page.h"

namespace tidemark {

/// Prints to stderr.
void say(const std::string& text);

class Findings {
 public:
  Findings(const ExecOptions& exec, RunRecord run);
  /// A program that ran under a schedule: judges it. Verdicts that it has before are printed and do
  /// not count.
  void add(TrialRecord trial);
  /// After the last program: prints the answer, the peaks, what is alive and the verdicts that
  /// fail, and writes the files. `base` is the report of --compare. Returns the first program's
  /// exit code that is not 0, else kCheckFailed if a verdict fails.
  int finish(const Report& base, Ns duration);

 private:
  void tell();
  void annotate() const;
  void advise() const;
  void write(const Changes* changes) const;
  const ExecOptions& exec_;
  const Paint paint_;
  Report report_;
  std::vector<HighestPeak> peaks_;
  bool failed_ = false;
};

}  // namespace tidemark
