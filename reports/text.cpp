#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "harness/record/units.h"
#include "reports/cause.h"
#include "reports/headline.h"
#include "reports/overview.h"
#include "reports/paint.h"
#include "reports/renderings.h"
#include "reports/saving.h"

namespace tidemark {
namespace {

constexpr std::size_t kSchedulesAcross = 3;  // more do not fit 100 columns
constexpr std::size_t kGroupsPrinted = 20;   // of failures; the page has them all

/// Characters, not bytes.
std::size_t width(const std::string& text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string left(const std::string& text, std::size_t columns) {
  return text + std::string(columns - std::min(columns, width(text)), ' ');
}

std::string right(const std::string& text, std::size_t columns) {
  return std::string(columns - std::min(columns, width(text)), ' ') + text;
}

std::string counts(const Cell& cell) {
  if (!cell.error.empty()) return "ERROR";
  if (cell.not_run) return "NOT RUN";
  std::string out = cell.failed > 0 ? fmt::format("{} FAIL", cell.failed) : "";
  const auto more = [&](int n, const char* what) {
    if (n > 0) out += fmt::format("{}{} {}", out.empty() ? "" : ", ", n, what);
  };
  more(cell.passed, "pass");
  more(cell.skipped, "skip");
  return out.empty() ? "-" : out;
}

/// The columns [from, to) of one group of trials: verdicts, then peaks.
std::string tables(const Overview& overview, std::size_t from, std::size_t to, const Paint& paint) {
  std::size_t names = 12;
  for (const OverviewRow& row : overview.rows)
    names = std::max(names, width(one_line(row.variant)) + 1);
  const std::size_t cell = 24;
  std::string out = "  " + left("verdicts", names + 10);
  for (std::size_t i = from; i < to; ++i) out += left(one_line(overview.trials[i]->schedule), cell);
  out = paint.dim(out) + "\n";
  for (const OverviewRow& row : overview.rows) {
    out += "  " + left(one_line(row.variant.empty() ? "(all)" : row.variant), names) +
           paint.dim(left(row.role, 10));
    for (std::size_t i = from; i < to; ++i) {
      const Cell& c = row.cells[i];
      const std::string text = left(counts(c), cell);
      out += c.failed > 0 || !c.error.empty() || c.not_run ? paint.red(text)
             : c.passed > 0                                ? paint.green(text)
                                                           : text;
    }
    out += "\n";
  }
  if (overview.largest == 0) return out;

  const ByteUnit unit = unit_for(overview.largest, overview.smallest);
  out += "\n" + paint.dim("  " + left(fmt::format("peaks, {}", unit.name), names));
  for (std::size_t i = from; i < to; ++i)
    out += paint.dim(right(one_line(overview.trials[i]->schedule), 26));
  out += "\n" + paint.dim("  " + left("worst rank", names));
  for (std::size_t i = from; i < to; ++i) out += paint.dim("     alloc  active reserved");
  out += "\n";
  for (const OverviewRow& row : overview.rows) {
    if (std::ranges::none_of(row.cells, &Cell::measured)) continue;
    out += "  " + left(one_line(row.variant), names);
    for (std::size_t i = from; i < to; ++i) {
      const Cell& c = row.cells[i];
      const auto figure = [&](std::size_t s) {
        return c.measured ? unit(c.peak[s]) : std::string("-");
      };
      out += right(figure(0), 10) + right(figure(1), 8) + right(figure(2), 8);
    }
    out += "\n";
  }
  return out;
}

std::string failure(const Report& report, const Failure& f, const Paint& paint) {
  const Verdict& v = *f.verdict;
  std::string out =
      fmt::format("  {} {} {}/{} {}: {} {}\n", paint.red("FAIL"), paint.bold(one_line(v.name)),
                  one_line(f.trial->scenario), one_line(f.trial->size), one_line(f.trial->schedule),
                  one_line(v.variant), ranks_text(f.ranks));
  for (const std::string& line : failure_lines(v)) out += fmt::format("       {}\n", line);
  return out + paint.dim("       again: " + one_line(command(report, *f.trial))) + "\n";
}

/// The first in full; of many with one cause the names of the others.
std::string failures_text(const Report& report, const FailureGroup& group, const Paint& paint) {
  const std::vector<Failure>& all = group.failures;
  const std::size_t whole = all.size() > kWhole ? 1 : all.size();
  std::string out;
  for (std::size_t i = 0; i < whole; ++i) out += failure(report, all[i], paint) + "\n";
  if (whole == all.size()) return out;
  out.pop_back();
  out +=
      fmt::format("       and {} more {} {}{}:\n", exact(count_of(std::span(all).subspan(whole))),
                  group.why.empty() ? "of" : "for this reason:", one_line(group.variant),
                  group.why.empty() ? "" : ": " + one_line(group.why));
  for (std::size_t i = whole; i < std::min(all.size(), whole + kNamed); ++i)
    out += fmt::format("         {} {} {}, {}: measured {}\n", one_line(all[i].verdict->name),
                       one_line(all[i].verdict->variant), one_line(all[i].trial->schedule),
                       ranks_text(all[i].ranks), measured_text(*all[i].verdict));
  if (all.size() > whole + kNamed) out += "         ... (report.html has each)\n";
  return out + "\n";
}

/// What the losses, gradients and parameters of all variants and ranks are off by, beside what is
/// allowed: of each the one that comes nearest to it.
std::string reference(const Overview& overview, const Paint& paint) {
  constexpr std::string_view kPrefix = "parity/reference/";
  std::vector<std::pair<std::string, const Verdict*>> nearest;
  const auto parts = [](const Verdict& v) {
    return v.high > 0.0 ? *v.measured / *v.high : *v.measured;
  };
  for (const TrialRecord* trial : overview.trials)
    for (const Verdict& v : trial->verdicts) {
      if (!v.name.starts_with(kPrefix) || !v.measured || !v.high) continue;
      const std::string what = v.name.substr(kPrefix.size());
      const auto entry =
          std::ranges::find(nearest, what, [](const auto& one) { return one.first; });
      if (entry == nearest.end())
        nearest.emplace_back(what, &v);
      else if (parts(v) > parts(*entry->second))
        entry->second = &v;
    }
  if (nearest.empty()) return "";
  std::string out;
  for (const auto& [what, verdict] : nearest)
    out += fmt::format("{}{} {:.2g} of {:.2g}", out.empty() ? "" : ", ", one_line(what),
                       *verdict->measured, *verdict->high);
  return "\n" + paint.dim("  off the reference, relative, of what is allowed: ") + out + "\n";
}

std::string result(const Overview& overview, const Paint& paint) {
  const std::optional<ResultTable> table = result_of(overview);
  if (!table) return "";
  std::array<std::size_t, 3> widths{};
  for (const auto& row : table->rows)
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], width(row[i]));
  std::string out = "\n" + paint.dim("  " + table->title) + "\n";
  for (const auto& row : table->rows)
    out += "  " + left(row[0], widths[0] + 2) + right(row[1], widths[1]) + "  saves " +
           left(row[2], widths[2] + 2) + row[3] + "\n";
  return out;
}

std::string group(const Overview& overview, const Paint& paint) {
  std::string out = paint.bold(overview.title()) + "  " + paint.dim(overview.detail()) + "\n";
  for (const TrialRecord* trial : overview.trials) {
    if (!trial->skipped.empty()) {
      out += fmt::format("  skipped under {}: {}\n", one_line(trial->schedule),
                         one_line(trial->skipped));
    }
    if (!trial->not_run.empty())
      out += fmt::format("  under {} {}\n", one_line(trial->schedule), one_line(trial->not_run));
  }
  if (overview.rows.empty()) return out + "\n";
  out += result(overview, paint);
  for (std::size_t from = 0; from < overview.trials.size(); from += kSchedulesAcross) {
    out += "\n" +
           tables(overview, from, std::min(from + kSchedulesAcross, overview.trials.size()), paint);
  }
  out += reference(overview, paint);
  for (const TrialRecord* trial : overview.trials)
    for (const VariantRecord& variant : trial->variants)
      if (const std::string shaped = shaped_by_capacity(variant); !shaped.empty())
        out += fmt::format("  note: {} under {}: {}\n", one_line(variant.name),
                           one_line(trial->schedule), shaped);
  return out + "\n";
}

std::string trimmed(const std::string& text) {
  std::string out;
  for (char c : text) {
    if (c == '\n') out.erase(out.find_last_not_of(' ') + 1);
    out += c;
  }
  return out;
}

// Text about the run as a whole; the last line says how it went.
std::string ending(const Report& report, const Paint& paint) {
  std::string out;
  for (const ControlTally& tally : control_tallies(report))
    out += fmt::format("{}: {}\n", one_line(tally.scenario), tally.text());
  for (const std::string& line : fits_text(report)) out += line + "\n";
  for (const std::string& gap : gaps(report)) out += gap + "\n";
  for (const std::string& fault : report.run.faults)
    out += paint.red("FAIL") + " " + one_line(fault) + "\n";
  out += counts_text(report) + "\n";
  const std::string last = headline(report);
  const Status status = headline_status(report);
  // "2,870 verdicts passed, 2 skipped" says less than the line of counts.
  if (last.starts_with(plural(report.count(Status::pass), "verdict"))) return out;
  return out +
         (status == Status::fail   ? paint.red(last)
          : status == Status::pass ? paint.green(last)
                                   : last) +
         "\n";
}

}  // namespace

std::string text_of(const Report& report, bool colour) {
  const Paint paint{colour};
  std::string out;
  for (const Overview& overview : overviews(report)) out += group(overview, paint);
  const std::vector<Breakdown> broken = breakdowns(report);
  for (const Breakdown& one : broken)
    out += fmt::format(
        "  {} {}/{} {} under {}: {}\n", paint.red("ERROR"), one_line(one.trial->scenario),
        one_line(one.trial->size), one_line(fmt::format("{}", fmt::join(one.variants, ", "))),
        one_line(fmt::format("{}", fmt::join(one.schedules, ", "))), one_line(one.brief));
  if (!broken.empty()) out += "\n";
  const std::vector<FailureGroup> failed = failure_groups(report);
  for (std::size_t i = 0; i < std::min(failed.size(), kGroupsPrinted); ++i)
    out += failures_text(report, failed[i], paint);
  if (failed.size() > kGroupsPrinted)
    out += fmt::format("  ... and {} more, in report.html\n\n", failed.size() - kGroupsPrinted);
  return trimmed(out + ending(report, paint));
}

}  // namespace tidemark
