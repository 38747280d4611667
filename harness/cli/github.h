// Output of a run or a comparison for GitHub Actions: annotations and the job's summary. Silent
// everywhere else.
#pragma once

#include <string>
#include <vector>

#include "harness/record/record.h"
#include "reports/compare/compare.h"

namespace tidemark {

struct Annotation {
  std::string title, message;
  std::string file;  // below the current folder; empty: of no line
  int line = 0;
};

/// Under GITHUB_ACTIONS: the annotations as ::error lines on stdout, `markdown` at the end of the
/// file that $GITHUB_STEP_SUMMARY names. A summary that cannot be written is a line of warning.
void tell_github(const std::vector<Annotation>& annotations, const std::string& markdown);
void tell_github(const Report& report);
void tell_github(const Comparison& comparison, const std::string& markdown);

/// "::error title=...::..." with everything escaped that would end it.
std::string annotation_line(const Annotation& annotation);

}  // namespace tidemark
