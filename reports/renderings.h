// Renderings of a report for people and for other programs, as text. report.html is html.h.
#pragma once

#include <string>

#include "harness/record/growing_text.h"
#include "harness/record/record.h"
#include "reports/html.h"
#include "reports/nights.h"

namespace tidemark {

/// Text that `tidemark run` prints at its end: tables of verdicts and peaks, what failed and why,
/// and the last lines of headline.h. At most 100 columns but for names, formulas and commands. ANSI
/// colours with `colour`.
std::string text_of(const Report& report, bool colour = false);

/// summary.md: for a pull request or a CI job's summary. What failed comes first.
std::string markdown(const Report& report);
/// Text that Markdown and HTML leave alone.
std::string markdown_text(const std::string& text);
/// Text as code on one line: fenced by more backticks than it holds.
std::string markdown_code(const std::string& text);

/// junit.xml: one suite a scenario; a case for each assertion that failed or was skipped, and one
/// for all verdicts of a variant that passed. The counts are those of every other rendering. A
/// variant that ended in error is a case of its own, a trial that did not run a skipped one.
std::string junit(const Report& report);

/// benchmark.json in Google Benchmark's shape, for its compare.py, `tidemark compare` and whatever
/// else reads that: one row (benchmark.h) for each trial and each variant but controls. real_time
/// is the typical step time in ms on the device's clock, of the trial or of the one beside it that
/// has a clock; 0, and a label that says so, where none has. cpu_time is the same. The report
/// must outlive the text maker.
TextMaker benchmark_json(const Report& report);

/// The first page of report.html, the contents of <main>: how the run went, what failed, what every
/// fix saves. `base` is another run whose figures stand beside, and `changes` what changed, or
/// null.
/// `nights`: the peaks of the nights before, or null.
std::string page_overview(const Report& report, const Report* base, const Changes* changes,
                          const Nights* nights = nullptr);

}  // namespace tidemark
