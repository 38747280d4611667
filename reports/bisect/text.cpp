#include "reports/bisect/text.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "harness/record/units.h"
#include "reports/compare/render.h"
#include "reports/fit/text.h"
#include "reports/program/provenance.h"
#include "reports/renderings.h"
#include "reports/table.h"

namespace tidemark {
namespace {

constexpr std::size_t kRows = 12;  // of a change, in text

const BisectVersion* find(const BisectRecord& record, const std::string& version) {
  const auto match = std::ranges::find(record.versions, version, &BisectVersion::version);
  return match == record.versions.end() ? nullptr : &*match;
}

std::string what_of(const BisectRecord& record) {
  return record.package.empty() ? "commit" : record.package;
}

std::string part_text(const AlivePart& part) {
  const std::string kind = name_of(part.kind);
  return part.site.empty() ? kind : kind + ", " + part.site;
}

/// "activations, forward model.py:88 (+3.4 GiB), cuBLAS workspaces (+204.0 MiB)": the largest
/// parts, until they make nine tenths of what all of them make without their signs.
std::string largest_text(const BisectChange& change) {
  Bytes all = 0, said = 0;
  std::map<std::string, Bytes> lines;  // of all modules
  for (const AlivePart& part : change.parts) lines[part_text(part)] += part.bytes;
  std::vector<std::pair<std::string, Bytes>> parts(lines.begin(), lines.end());
  const auto size = [](const auto& one) { return one.second < 0 ? -one.second : one.second; };
  std::ranges::stable_sort(parts, std::greater<>(), size);
  for (const auto& one : parts) all += size(one);
  std::vector<std::string> out;
  for (const auto& one : parts) {
    if (out.size() == 3 || said * 10 >= all * 9) break;
    said += size(one);
    out.push_back(fmt::format("{} ({})", one.first, signed_text(one.second)));
  }
  return fmt::format("{}", fmt::join(out, ", "));
}

/// "7 versions ran, 2 were refused by the program, 1 could not be installed".
std::string counts_text(const BisectRecord& record) {
  const bool commits = record.package.empty();
  const auto count = [&](const char* state) {
    return std::ranges::count(record.versions, state, &BisectVersion::state);
  };
  std::string out =
      fmt::format("{} of {} ran", count("ran"),
                  plural(std::ssize(record.versions), commits ? "commit" : "version"));
  for (const auto& [state, words] : {std::pair{"refused", "refused"},
                                     {"not installed", "not installed"},
                                     {"not known", "not known"}})
    if (count(state) > 0) out += fmt::format(", {} {}", count(state), words);
  return out;
}

/// What the environments of the versions that ran have otherwise than the user's own.
std::string others_text(const BisectRecord& record) {
  std::map<std::string, std::vector<std::string>> by_change;
  for (const BisectVersion& one : record.versions)
    if (one.ran())
      for (const std::string& change : one.changed) by_change[change].push_back(one.version);
  if (by_change.empty()) return "All other packages: the same in all.";
  std::vector<std::string> out;
  for (const auto& [change, versions] : by_change)
    out.push_back(
        fmt::format("{} ({}{})", change, versions.front(),
                    versions.size() > 1 ? fmt::format(" and {} more", versions.size() - 1) : ""));
  return fmt::format(
      "Demanded otherwise than in your environment: {}; all other packages: the same.",
      fmt::join(out, "; "));
}

/// The report of a run, as far as `compare` explains it.
Report report_of(const BisectRecord& record, const BisectVersion& version) {
  Report out;
  out.run = record.run;
  out.trials.push_back(program_trial(record.program, Mode::known, version.version, 1));
  out.trials.back().program.emplace();
  out.trials.back().schedule = "calibrated";
  out.trials.back().alive = version.run->alive;
  return out;
}

}  // namespace

std::string change_line(const BisectRecord& record, const BisectChange& change) {
  const BisectVersion *from = find(record, change.from), *to = find(record, change.to);
  std::string out = fmt::format("{} {} -> {}: ", what_of(record), change.from, change.to);
  if (!to->title.empty()) out += fmt::format("\"{}\": ", to->title);
  const bool reserved = change.reserved != 0;
  const FitRun &was = *from->run, &is = *to->run;
  out += reserved ? fmt::format("reserved {} -> {}, {}", bytes_text(was.reserved),
                                bytes_text(is.reserved), signed_text(change.reserved))
                  : fmt::format("allocated {} -> {}, {}, and as much reserved",
                                bytes_text(was.allocated), bytes_text(is.allocated),
                                signed_text(change.allocated));
  if (reserved && (change.allocated > 0) != (change.reserved > 0))
    out += fmt::format(" (allocated {})", signed_text(change.allocated));
  const std::string parts = largest_text(change);
  out += parts.empty() ? ": the same is alive at the peak" : ": " + parts;
  if (change.between > 0)
    out += fmt::format("; {} between them did not run",
                       plural(change.between, record.package.empty() ? "commit" : "version"));
  return out;
}

std::string bisect_headline(const BisectRecord& record) {
  if (record.changes.empty()) return bisect_lines(record).front();
  const auto size = [](const BisectChange& change) {
    const Bytes by = change.reserved != 0 ? change.reserved : change.allocated;
    return by < 0 ? -by : by;
  };
  const BisectChange& largest = *std::ranges::max_element(record.changes, {}, size);
  return fmt::format("{}{} {} -> {}: {}",
                     record.changes.size() > 1
                         ? fmt::format("{} changes, the largest with ", record.changes.size())
                         : "",
                     what_of(record), largest.from, largest.to,
                     largest.reserved != 0 ? signed_text(largest.reserved) + " reserved"
                                           : signed_text(largest.allocated) + " allocated");
}

std::vector<std::string> bisect_lines(const BisectRecord& record) {
  std::vector<std::string> out;
  for (const BisectChange& change : record.changes) out.push_back(change_line(record, change));
  const auto ran = std::ranges::find_if(record.versions, &BisectVersion::ran);
  if (out.empty() && ran != record.versions.end())
    out.push_back(
        fmt::format("{}: no peak differs by more than {}: reserved {}, allocated {} in {}",
                    record.package.empty() ? "commits" : record.package, record.grew,
                    bytes_text(ran->run->reserved), bytes_text(ran->run->allocated), ran->version));
  if (out.empty())
    out.push_back(fmt::format("{}: nothing is known: no version ran", what_of(record)));
  out.push_back(counts_text(record) + ". " + others_text(record));
  return out;
}

std::vector<std::vector<std::string>> bisect_rows(const BisectRecord& record) {
  const bool commits = record.package.empty();
  std::vector<std::vector<std::string>> rows{
      {commits ? "commit" : record.package, "reserved", "allocated", "alive at the peak", ""}};
  for (const BisectVersion& one : record.versions) {
    if (one.state == "not run") continue;
    std::vector<std::string>& row = rows.emplace_back();
    row.push_back(one.version);
    if (one.ran())
      row.insert(row.end(), {figure_cell(one.run->reserved), figure_cell(one.run->allocated),
                             kinds_text(*one.run), one.title});
    else
      row.insert(row.end(), {"", "", "", one.state + ": " + one.why});
  }
  return rows;
}

std::vector<Section> change_sections(const BisectRecord& record, std::size_t most) {
  std::vector<Section> out;
  for (const BisectChange& change : record.changes) {
    const BisectVersion *from = find(record, change.from), *to = find(record, change.to);
    const Report before = report_of(record, *from), after = report_of(record, *to);
    Comparison comparison;
    comparison.differently = change.because;
    for (Section& section : causes(comparison, {change.from, before}, {change.to, after}, most)) {
      section.title = fmt::format("{} -> {}: {}", change.from, change.to, section.title);
      out.push_back(std::move(section));
    }
  }
  return out;
}

std::string bisect_text(const BisectRecord& record) {
  std::string out;
  for (const std::string& line : bisect_lines(record)) out += line + "\n";
  out += "\n" + table_text(bisect_rows(record)) + "\n" + text_of(change_sections(record, kRows));
  for (const std::string& note : record.notes) out += note + "\n";
  return out;
}

std::string bisect_markdown(const BisectRecord& record) {
  std::string out = "# tidemark bisect\n\n";
  for (const std::string& line : bisect_lines(record)) out += "- " + markdown_text(line) + "\n";
  out += "\n" + markdown_code(command_of(record.run, "bisect", record.program)) + "\n\n" +
         markdown_table(bisect_rows(record)) + "\n";
  for (const Section& section : change_sections(record, kRows)) {
    out += "## " + markdown_text(section.title) + "\n\n";
    for (const std::string& line : section.text) out += "- " + markdown_text(line) + "\n";
    out += markdown_table(section.rows, {0}) + "\n";
  }
  for (const std::string& note : record.notes) out += markdown_text(note) + "\n";
  return out;
}

}  // namespace tidemark
