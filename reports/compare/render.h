// A comparison for people (text, Markdown, HTML) and for programs (JSON).
#pragma once

#include <filesystem>
#include <string>

#include "reports/compare/compare.h"
#include "reports/html.h"

namespace tidemark {

/// One side of a comparison: its name as the user gave it, and the report.
struct Side {
  std::string name;
  const Report& report;
  std::filesystem::path folder = {};  // of the records of its programs; empty: none
};

/// All changes, as one document of which text, Markdown and pages are renderings: the differences
/// in how the runs were made, which are the cause; the parts of a program's new peak beyond the old
/// one, by kind, module and line, with the sum exact; then the changes that are worse, missing,
/// better, and the rest. At most `most` lines of each.
std::vector<Section> changes(const Comparison& comparison, const Side& base, const Side& fresh,
                             std::size_t most);
/// The first of these sections: the cause, and what the new peaks have beyond the old ones.
std::vector<Section> causes(const Comparison& comparison, const Side& base, const Side& fresh,
                            std::size_t most);
/// The others: what is worse, missing, better, and the rest.
std::vector<Section> lists(const Comparison& comparison, std::size_t most);
/// Sections as text.
std::string text_of(const std::vector<Section>& sections);
/// For the page of the new report.
Changes changes_of(const Comparison& comparison, const Side& base, const Side& fresh);

std::string comparison_text(const Comparison& comparison, const Side& base, const Side& fresh);
std::string comparison_markdown(const Comparison& comparison, const Side& base, const Side& fresh);
std::string comparison_json(const Comparison& comparison, const Side& base, const Side& fresh);
/// With the memory over time and the losses of both, overlaid, where something changed.
std::string comparison_html(const Comparison& comparison, const Side& base, const Side& fresh);

/// "1,234 comparisons (600 verdicts, 634 metrics): 2 regressions, 1 improvement".
std::string comparison_summary(const Comparison& comparison);
/// The note that both reports are of one run; empty where they are not.
std::string same_run_text(const Comparison& comparison);
/// The heading of what is missing, which says whether that counts.
std::string missing_title(const Comparison& comparison);
/// One line each.
std::string sentence(const VerdictChange& turn);
std::string sentence(const Change& change);

}  // namespace tidemark
