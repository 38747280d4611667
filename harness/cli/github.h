// Output of a run or a comparison for a job of CI: annotations and, on GitHub, the job's summary.
// Silent everywhere else.
#pragma once

#include <string>
#include <vector>

#include "harness/record/record.h"
#include "reports/annotation.h"
#include "reports/compare/compare.h"

namespace tidemark {

/// In a job of CI: the annotations as ::error lines on stdout, `markdown` at the end of the
/// file that $GITHUB_STEP_SUMMARY names. A summary that cannot be written is a line of warning.
void tell_github(const std::vector<Annotation>& annotations, const std::string& markdown);
void tell_github(const Report& report);
void tell_github(const Comparison& comparison, const std::string& markdown);

}  // namespace tidemark
