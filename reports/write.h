// The folder that a run leaves behind.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/record/record.h"
#include "harness/record/write.h"
#include "reports/html.h"
#include "reports/nights.h"

namespace tidemark {

/// Finds the peaks of the nights before a report in its folder; may be null.
using FindNights = Nights (*)(const std::filesystem::path& folder, const Report& report);

/// report.json, details/, report.html, junit.xml, summary.md, benchmark.json, loss/, trace/,
/// snapshot/. Files appear whole, report.json last. Throws std::runtime_error in one line, also
/// where there is a report already. Where report.json and details/ can be written and others
/// cannot (no space is left), the error names the first of those, and what fits is there.
void write_all(const std::filesystem::path& folder, Report report, FindNights nights = nullptr);

/// The record with the details beside it. `path` is report.json or its folder. Throws
/// std::runtime_error in one line.
Report read_whole(const std::filesystem::path& path);

struct Rendered {
  std::filesystem::path folder;
  Report report;
};
/// Writes the files of a report again from its report.json. `path` is that file or its folder.
/// `base` is another run, or null: report.html then shows its figures beside, and what `changed`
/// says of the two. A report of programs is only read: rerender_programs (program/page.h) writes
/// its files.
Rendered rerender(const std::filesystem::path& path, const Report* base = nullptr,
                  Changes (*changed)(const Report& base, const Report& fresh) = nullptr,
                  FindNights nights = nullptr);

/// "scenario/size/rN/mode/schedule/" of a run's folder.
std::string trial_folder(const TrialRecord& trial);

/// A name as one component of a path: what is not a letter, digit or one of "._-" becomes '_'.
std::string path_component(const std::string& name);

}  // namespace tidemark
