#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <map>

#include "harness/record/units.h"
#include "reports/cause.h"
#include "reports/headline.h"
#include "reports/markup.h"
#include "reports/overview.h"
#include "reports/program/text.h"
#include "reports/renderings.h"
#include "reports/saving.h"

namespace tidemark {
namespace {

constexpr std::size_t kGroupsShown = 50;  // of failures

std::string plain(const std::string& text) { return markdown_text(text); }

std::string code(const std::string& text) { return markdown_code(text); }

std::string verdicts(const Cell& cell) {
  if (!cell.error.empty()) return "**error**";
  if (cell.not_run) return "**not run**";
  if (cell.failed > 0) return fmt::format("**{} failed**, {} passed", cell.failed, cell.passed);
  if (cell.passed > 0) return fmt::format("{} passed", cell.passed);
  return cell.skipped > 0 ? fmt::format("{} skipped", cell.skipped) : "–";
}

std::string failure(const Report& report, const Failure& f) {
  const Verdict& v = *f.verdict;
  std::string out = fmt::format("- **{}**, {}, {}, {}\n", plain(v.name), plain(f.trial->name()),
                                plain(v.variant), ranks_text(f.ranks));
  const std::string expected = expected_text(v);
  if (!expected.empty()) out += fmt::format("  - expected {}\n", plain(expected));
  if (!formula_text(v).empty()) out += fmt::format("  - formula {}\n", code(formula_text(v)));
  out += fmt::format("  - measured {}\n", plain(measured_text(v)));
  if (!v.why.empty()) out += fmt::format("  - {}\n", plain(v.why));
  return out + fmt::format("  - again: {}\n", code(command(report, *f.trial)));
}

std::string failures_text(const Report& report, const FailureGroup& group) {
  const std::vector<Failure>& all = group.failures;
  const std::size_t whole = all.size() > kWhole ? 1 : all.size();
  std::string out;
  for (std::size_t i = 0; i < whole; ++i) out += failure(report, all[i]);
  if (whole == all.size()) return out;
  out += fmt::format("- and {} more {} {}{}:", exact(count_of(std::span(all).subspan(whole))),
                     group.why.empty() ? "of" : "for this reason:", plain(group.variant),
                     group.why.empty() ? "" : ": " + plain(group.why));
  for (std::size_t i = whole; i < std::min(all.size(), whole + kNamed); ++i)
    out += fmt::format("{} {} {}", i == whole ? "" : ",", plain(all[i].verdict->name),
                       plain(all[i].trial->schedule));
  return out + (all.size() > whole + kNamed ? ", ...\n" : "\n");
}

std::string result(const Overview& overview) {
  const std::optional<ResultTable> table = result_of(overview);
  if (!table) return "";
  std::string out =
      fmt::format("{}:\n\n| fix | baseline → fix | saved | price |\n|---|---:|---:|---|\n",
                  plain(table->title));
  for (const auto& row : table->rows)
    out += fmt::format("| {} | {} | {} | {} |\n", plain(row[0]), plain(row[1]), plain(row[2]),
                       plain(row[3]));
  return out + "\n";
}

bool broken(const OverviewRow& row) {
  return std::ranges::any_of(row.cells,
                             [](const Cell& c) { return c.failed > 0 || !c.error.empty(); });
}

// For each rank the largest value of any variant: a rank keeps its context and libraries
// throughout.
std::string outside(const TrialRecord& trial) {
  std::map<int, Bytes> most;
  for (const VariantRecord& variant : trial.variants)
    for (const RankRecord& rank : variant.ranks)
      if (rank.outside) most[rank.rank] = std::max(most[rank.rank], *rank.outside);
  std::string out;
  for (const auto& [rank, bytes] : most)
    if (bytes != 0)
      out += fmt::format("{} rank {}: {}", out.empty() ? "" : ";", rank, exact(bytes));
  if (out.empty()) return out;
  return fmt::format(
      "\nOutside the allocator under {} (context, NCCL, cuBLAS, other processes), bytes:{}\n",
      plain(trial.schedule), out);
}

// For each rank the variant with the largest value, as above. A value that is known for one variant
// is known for the rank.
std::string owners(const TrialRecord& trial) {
  std::map<int, OutsideOwners> most;
  for (const VariantRecord& variant : trial.variants)
    for (const RankRecord& rank : variant.ranks) {
      if (!rank.owners) continue;
      OutsideOwners& kept = most.try_emplace(rank.rank, *rank.owners).first->second;
      if (rank.owners->unknown.empty() && (!kept.unknown.empty() || rank.owners->own > kept.own))
        kept = *rank.owners;
    }
  std::string known, why;
  std::vector<int> without;
  for (const auto& [rank, each] : most) {
    if (!each.unknown.empty()) {
      if (without.empty()) why = each.unknown;
      without.push_back(rank);
      continue;
    }
    known += fmt::format("{} rank {}: {} / {} / {}", known.empty() ? "" : ";", rank,
                         exact(each.own), exact(each.others), exact(each.driver));
  }
  std::string out;
  if (!known.empty())
    out = fmt::format(
        "\nBy NVML under {} (this process outside the allocator / other processes / kept by the "
        "driver), bytes:{}\n",
        plain(trial.schedule), known);
  if (!without.empty())
    out += fmt::format("\nNVML does not say who uses it under {} on {}: {}\n",
                       plain(trial.schedule), ranks_text(without), plain(why));
  return out;
}

std::string times(const TrialRecord& trial) {
  std::string out;
  for (const VariantRecord& variant : trial.variants) {
    if (!variant.timing) continue;
    const Timing& t = *variant.timing;
    if (out.empty())
      out = fmt::format(
          "\nStep time under {} by CUDA events, rank 0, {} repetitions in turns, the first step of "
          "each left out.\n\n| variant | median | quartiles | to the baseline | lowest – highest "
          "|\n"
          "|---|---:|---:|---:|---:|\n",
          plain(trial.schedule), t.repetitions);
    out += fmt::format("| {} | {} | {} – {} |", plain(variant.name), duration(t.median),
                       duration(t.low), duration(t.high));
    out += t.ratio ? fmt::format(" {:.3f} | {:.3f} – {:.3f} |\n", t.ratio->median, t.ratio->lowest,
                                 t.ratio->highest)
                   : " – | – |\n";
  }
  return out;
}

// An address that has nothing of Markdown in it.
std::string linked(const Source& source) {
  return source.link.empty() ? plain(source.name)
                             : fmt::format("[{}]({})", plain(source.name),
                                           percent_encoded(source.link, ":/-._~#?=&"));
}

// Where the waste was seen, and the figures of others beside those under the telling schedule.
std::string seen(const Overview& overview) {
  std::string out;
  for (const Source& source : overview.trials.front()->seen)
    out += fmt::format("{}{}: {}", out.empty() ? "Seen in " : "; ", linked(source),
                       plain(source.what));
  if (!out.empty()) out += "\n\n";
  const TrialRecord* telling = telling_trial(overview);
  if (telling == nullptr || telling->published.empty()) return out;
  for (const PublishedFigure& one : telling->published) {
    const auto source = std::ranges::find(telling->seen, one.source, &Source::name);
    out += fmt::format("- {} published {} ({}); ",
                       source == telling->seen.end() ? plain(one.source) : linked(*source),
                       plain(one.value), plain(one.what));
    if (!one.before || !one.after) {
      out += "not measured here: the two variants did not both run\n";
      continue;
    }
    const Saving here{.fix = one.to,
                      .baseline = one.from,
                      .before = one.before,
                      .after = *one.after,
                      .judged = Status::pass};
    out += fmt::format("here {} → {} saves {}\n", plain(one.from), plain(one.to),
                       plain(saved_text(here)));
  }
  return out + "\n";
}

std::string unheld(const TrialRecord& trial) {
  std::string out;
  for (const VariantRecord& variant : trial.variants)
    for (const RankRecord& rank : variant.ranks)
      if (!rank.unheld.empty())
        out +=
            fmt::format("\nThe device was not held back under {}: {} rank {}: {}\n",
                        plain(trial.schedule), plain(variant.name), rank.rank, plain(rank.unheld));
  return out;
}

std::string table(const Overview& overview) {
  std::string out =
      fmt::format("## {}\n\n{}\n\n", plain(overview.title()), plain(overview.detail()));
  for (const TrialRecord* trial : overview.trials) {
    if (!trial->skipped.empty())
      out += fmt::format("Skipped under {}: {}\n", plain(trial->schedule), plain(trial->skipped));
    if (!trial->not_run.empty())
      out += fmt::format("Under {} {}\n\n", plain(trial->schedule), plain(trial->not_run));
  }
  if (overview.rows.empty()) return out;
  out += seen(overview);
  out += result(overview);

  const ByteUnit unit = unit_for(overview.largest, overview.smallest);
  out += fmt::format(
      "Peaks in {} of the worst rank: allocated / active / reserved.\n\n| variant | role |",
      unit.name);
  std::string rule = "|---|---|";
  for (const TrialRecord* trial : overview.trials) {
    out += fmt::format(" {} | peaks |", plain(trial->schedule));
    rule += "---|---:|";
  }
  out += "\n" + rule + "\n";
  std::vector<const OverviewRow*> rows;
  for (const OverviewRow& row : overview.rows) rows.push_back(&row);
  std::ranges::stable_partition(rows, [](const OverviewRow* row) { return broken(*row); });
  for (const OverviewRow* row : rows) {
    out +=
        fmt::format("| {} | {} |", plain(row->variant.empty() ? "(all)" : row->variant), row->role);
    for (const Cell& cell : row->cells) {
      const std::string peaks = cell.measured ? fmt::format("{} / {} / {}", unit(cell.peak[0]),
                                                            unit(cell.peak[1]), unit(cell.peak[2]))
                                              : "–";
      out += fmt::format(" {} | {} |", verdicts(cell), peaks);
    }
    out += "\n";
  }
  for (const TrialRecord* trial : overview.trials)
    for (const VariantRecord& variant : trial->variants)
      if (const std::string shaped = shaped_by_capacity(variant); !shaped.empty())
        out +=
            fmt::format("\n{} under {}: {}\n", plain(variant.name), plain(trial->schedule), shaped);
  for (const TrialRecord* trial : overview.trials)
    out += outside(*trial) + owners(*trial) + times(*trial) + unheld(*trial);
  return out;
}

}  // namespace

std::string markdown_text(const std::string& text) {
  std::string out;
  for (char c : one_line(text)) {
    const char* known = c == '"' ? nullptr : entity(c);
    if (std::string_view("\\`*_[]|#~!").find(c) != std::string_view::npos) out += '\\';
    known != nullptr ? out += known : out += c;
  }
  return out;
}

std::string markdown_code(const std::string& text) {
  const std::string body = one_line(text);
  std::string fence = "`";
  while (body.find(fence) != std::string::npos) fence += '`';
  const char* space = fence.size() > 1 || body.empty() ? " " : "";
  return fence + space + body + space + fence;
}

std::string markdown(const Report& report) {
  if (report.of_programs()) return programs_markdown(report);
  std::string out = fmt::format("# tidemark: {}\n\n", plain(headline(report)));
  out += plain(counts_text(report)) + "\n\n";
  for (const std::string& fault : report.run.faults) out += "- **FAILED**: " + plain(fault) + "\n";
  for (const std::string& gap : gaps(report)) out += "- " + plain(gap) + "\n";
  for (const std::string& line : fits_text(report)) out += "- " + plain(line) + "\n";
  for (const ControlTally& tally : control_tallies(report))
    out += fmt::format("- {}: {}\n", plain(tally.scenario), plain(tally.text()));
  out += "\n";
  for (const Breakdown& one : breakdowns(report))
    out +=
        fmt::format("- **error** in {}/{}, {}, under {}: {}\n", plain(one.trial->scenario),
                    plain(one.trial->size), plain(fmt::format("{}", fmt::join(one.variants, ", "))),
                    plain(fmt::format("{}", fmt::join(one.schedules, ", "))), plain(one.brief));
  const std::vector<FailureGroup> failed = failure_groups(report);
  if (!failed.empty()) {
    out += "## Failed\n\n";
    for (std::size_t i = 0; i < std::min(failed.size(), kGroupsShown); ++i)
      out += failures_text(report, failed[i]);
    if (failed.size() > kGroupsShown)
      out += fmt::format("- and {} more, in report.html\n", failed.size() - kGroupsShown);
    out += "\n";
  }
  for (const Overview& overview : overviews(report)) out += "\n" + table(overview);
  const RunRecord& run = report.run;
  out += fmt::format("\n{}: {} · torch {} · {}\n",
                     run.device_kind == "virtual"
                         ? "Virtual device (times are those of its clock, not of hardware)"
                         : plain(run.device_kind) + " device",
                     plain(run.profile), plain(run.torch), plain(run.started));
  if (!run.sharing.empty()) out += fmt::format("\n{}\n", plain(run.sharing));
  if (!run.arithmetic.empty()) out += fmt::format("\nNumbers: {}\n", plain(run.arithmetic));
  return out;
}

}  // namespace tidemark
