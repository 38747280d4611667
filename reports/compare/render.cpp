#include "reports/compare/render.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>

#include "harness/record/units.h"
#include "reports/compare/kinds_changed.h"
#include "reports/compare/lines.h"
#include "reports/compare/overlay.h"
#include "reports/compare/pairs.h"
#include "reports/html.h"
#include "reports/overview.h"
#include "reports/program/finding.h"
#include "reports/program/text.h"
#include "reports/renderings.h"
#include "reports/table.h"

namespace tidemark {
namespace {

constexpr std::size_t kShown = 40, kRows = 500;  // of each kind, on HTML pages; JSON has all
constexpr std::size_t kCharted = 12;             // variants that changed

std::string where(const Place& place) {
  std::string out = one_line(place.trial);
  if (!place.variant.empty()) out += " " + one_line(place.variant);
  if (!place.ranks.empty()) out += " " + ranks_text(place.ranks);
  return out;
}

std::string figure(const std::optional<double>& value, const std::string& unit) {
  if (!value) return "no value";
  if (unit == "ns" && std::abs(*value) < 9e18) return duration(static_cast<Ns>(*value));
  return exact(*value);
}

/// "+1,048,576, +20%"; empty where there is no number to give.
std::string difference(const Change& change) {
  if (!change.before || !change.after) return "";
  const double by = *change.after - *change.before;
  if (!std::isfinite(by)) return "";
  std::string out = by > 0 ? "+" : "";
  out += change.unit == "ns" ? fmt::format("{:.0f} ns", by) : exact(by);
  if (*change.before != 0) out += fmt::format(", {:+.3g}%", 100 * by / std::abs(*change.before));
  return out;
}

std::string steps(const Change& change) {
  if (change.step < 0) return "";
  std::string out = fmt::format(" at step {}", change.step);
  if (change.steps > 1)
    out += fmt::format(" (differs in {} steps, first in {})", change.steps, change.first_step);
  return out;
}

std::string described(const Side& side) {
  const RunRecord& run = side.report.run;
  return fmt::format("{} (run {}, {}, tidemark {} {})", one_line(side.name), one_line(run.id),
                     one_line(run.started), one_line(run.tidemark), one_line(run.git));
}

/// A part of what is alive at a peak, which the table of its differences has.
bool is_part(const Change& change) { return change.metric.starts_with("alive/"); }

/// "toy/smoke" of "toy/smoke/r2/math/lagging": a cause shows under every schedule.
std::string size_of(const Place& place) {
  const auto scenario = place.trial.find('/');
  return place.trial.substr(
      0, place.trial.find('/', scenario == std::string::npos ? 0 : scenario + 1));
}

/// Sentences of changes, of which those with one cause are one: the same verdict of a variant, or
/// figures of it that differ by as much, under all schedules and in all statistics.
class Sentences {
 public:
  void add(const VerdictChange& turn) {
    count({size_of(turn.place), turn.place.variant, turn.name, turn.before + turn.after},
          sentence(turn), "schedules");
  }
  void add(const Change& change) {
    const bool whole = change.before && change.after && change.kind == Kind::memory;
    const std::string by =
        whole ? exact(*change.after - *change.before) : std::to_string(lines_.size());
    count({size_of(change.place), change.place.variant, "", by}, sentence(change),
          "schedules, phases and statistics");
  }
  std::vector<std::string> text() const {
    std::vector<std::string> out;
    for (const Line& line : lines_)
      out.push_back(line.others == 0 ? line.text
                                     : fmt::format("{} (and {} more like it, in other {})",
                                                   line.text, line.others, line.where));
    return out;
  }

 private:
  struct Line {
    std::string text, where;
    int others = 0;
  };
  void count(const std::array<std::string, 4>& cause, std::string text, const char* where) {
    const auto [known, added] = places_.try_emplace(cause, lines_.size());
    if (added)
      lines_.push_back({std::move(text), where});
    else
      ++lines_[known->second].others;
  }
  std::vector<Line> lines_;
  std::map<std::array<std::string, 4>, std::size_t> places_;
};

std::vector<std::string> sentences(const Comparison& c, Effect effect) {
  Sentences out;
  for (const VerdictChange& turn : c.turns)
    if (turn.effect == effect) out.add(turn);
  for (const Change& change : c.changes)
    if (change.effect == effect && !is_part(change)) out.add(change);
  return out.text();
}

/// At most `most` of the lines, and a last one that says how many more there are.
std::vector<std::string> first(const std::vector<std::string>& lines, std::size_t most) {
  if (lines.size() <= most) return lines;
  std::vector<std::string> out(lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(most));
  out.push_back(fmt::format("and {} more (--format json has them all)", lines.size() - most));
  return out;
}

void add(std::vector<Section>& out, const std::string& title, const std::vector<std::string>& lines,
         std::size_t most) {
  if (!lines.empty())
    out.push_back({.title = fmt::format("{} ({})", title, lines.size()),
                   .text = first(lines, most),
                   .folded = true});
}

/// A line of a table of differences: "+1,048,576  activations, layers.*, forward model.py:3".
std::string row_text(const std::vector<std::string>& row) {
  std::string out = fmt::format("{:>18}  ", row.front());
  for (std::size_t i = 1; i < row.size(); ++i)
    if (!row[i].empty()) out += (i == 1 ? "" : ", ") + one_line(row[i]);
  return out;
}

std::string markdown_of(const std::vector<Section>& sections) {
  std::string out;
  for (const Section& section : sections) {
    out += "## " + section.title + "\n\n";
    for (const std::string& line : section.text) out += "- " + markdown_text(line) + "\n";
    out += markdown_table(section.rows, {0}) + "\n";
  }
  return out;
}

/// Place of a chart: a change, the worst first, on a rank that has it.
struct Spot {
  std::string trial, variant;
  int rank;
};

std::vector<Spot> spots(const Comparison& c) {
  std::vector<Spot> out;
  const auto add = [&](const Place& place, int rank) {
    const bool known = std::ranges::any_of(out, [&](const Spot& spot) {
      return spot.trial == place.trial && spot.variant == place.variant;
    });
    if (out.size() < kCharted && !place.variant.empty() && !known)
      out.push_back({place.trial, place.variant, std::max(rank, 0)});
  };
  for (Effect effect : {Effect::regression, Effect::improvement, Effect::changed}) {
    for (const Change& change : c.changes)
      if (change.effect == effect) add(change.place, change.rank);
    for (const VerdictChange& turn : c.turns)
      if (turn.effect == effect)
        add(turn.place, turn.place.ranks.empty() ? 0 : turn.place.ranks[0]);
  }
  return out;
}

Line memory_line(const std::string& name, const VariantRecord& variant, int rank) {
  Line out{name};
  const auto rank_record = std::ranges::find(variant.ranks, rank, &RankRecord::rank);
  if (rank_record == variant.ranks.end()) return out;
  for (const Sample& s : rank_record->timeline)
    out.points.emplace_back(static_cast<double>(s.time) * 1e-6, static_cast<double>(s.active));
  return out;
}

Line loss_line(const std::string& name, const VariantRecord& variant) {
  Line out{name};
  for (const LossPoint& p : variant.loss)
    if (p.value) out.points.emplace_back(p.step, *p.value);
  return out;
}

std::vector<Chart> charts(const Comparison& c, const Side& base, const Side& fresh) {
  std::vector<Chart> out;
  const Pairs pairs = pair_trials(base.report, fresh.report);
  for (const Spot& spot : spots(c)) {
    const auto pair = std::ranges::find(pairs.trials, spot.trial, &TrialPair::name);
    if (pair == pairs.trials.end()) continue;
    const VariantRecord *a = variant_in(*pair->base, spot.variant),
                        *b = variant_in(*pair->fresh, spot.variant);
    if (a == nullptr || b == nullptr) continue;
    const std::string name = spot.trial + " " + spot.variant;
    out.push_back({fmt::format("{}, rank {}: active memory over the last step", name, spot.rank),
                   "ms of the host's clock",
                   "active",
                   true,
                   {memory_line("base", *a, spot.rank), memory_line("new", *b, spot.rank)}});
    out.push_back(
        {name + ": loss", "step", "loss", false, {loss_line("base", *a), loss_line("new", *b)}});
  }
  return out;
}

/// The highest peak of a report's programs, as requested.
Bytes highest_peak_of(const Report& report) {
  Bytes out = 0;
  for (const TrialRecord* trial : trials_of(report, true))
    if (trial->alive) out = std::max(out, trial->alive->active);
  return out;
}

/// "no regression", "1 regression", "nothing was compared"; of programs with the change of the
/// peak: "no regression, 896 MiB less at the peak".
std::string result(const Comparison& c, const Side& base, const Side& fresh) {
  if (c.exit_code() == 4) return "nothing was compared";
  const std::string out =
      c.exit_code() == 0 ? "no regression" : plural(c.regressions(), "regression");
  const Bytes before = highest_peak_of(base.report), after = highest_peak_of(fresh.report);
  if (before == 0 || after == 0 || before == after) return out;
  return fmt::format("{}, {} {} at the peak", out, bytes_text(std::abs(after - before)),
                     after > before ? "more" : "less");
}

/// The same after the script of a program: "gpt.py: 3 regressions, 2.3 GiB more at the peak".
std::string titled(const Comparison& c, const Side& base, const Side& fresh) {
  const auto all = trials_of(fresh.report, true);
  return (all.empty() ? "" : script_of(all[0]->program->words) + ": ") + result(c, base, fresh);
}

}  // namespace

std::vector<Section> causes(const Comparison& c, const Side& base, const Side& fresh,
                            std::size_t most) {
  std::vector<Section> out;
  add(out, "The runs were made differently", c.differently, most);
  const std::vector<const TrialRecord*> programs = trials_of(fresh.report, true);
  for (const TrialRecord* before : trials_of(base.report, true)) {
    const auto after = std::ranges::find(programs, before->schedule, &TrialRecord::schedule);
    if (after == programs.end()) continue;
    TrialRecord at_new_lines = *before;
    if (before->alive && (*after)->alive)
      at_new_lines.alive = at_lines_of(*before->alive, *(*after)->alive);
    Section section = difference(at_new_lines, **after, most);
    if (!section.rows.empty()) out.push_back(std::move(section));
  }
  for (Section& section : kinds_changed(base.report, fresh.report, most))
    out.push_back(std::move(section));
  return out;
}

std::vector<Section> lists(const Comparison& c, std::size_t most) {
  std::vector<Section> out;
  add(out, "Regressions", sentences(c, Effect::regression), most);
  add(out, missing_title(c), c.missing, most);
  add(out, "Improvements", sentences(c, Effect::improvement), most);
  add(out, "Other changes", sentences(c, Effect::changed), most);
  add(out, "New", c.fresh, most);
  return out;
}

std::vector<Section> changes(const Comparison& c, const Side& base, const Side& fresh,
                             std::size_t most) {
  std::vector<Section> out = causes(c, base, fresh, most);
  for (Section& section : lists(c, most)) out.push_back(std::move(section));
  return out;
}

std::string text_of(const std::vector<Section>& sections) {
  std::string out;
  for (const Section& section : sections) {
    out += section.title + (section.rows.empty() ? "\n" : ":\n");
    for (const std::string& line : section.text) out += "  " + one_line(line) + "\n";
    for (std::size_t i = 1; i < section.rows.size(); ++i) out += row_text(section.rows[i]) + "\n";
    out += "\n";
  }
  return out;
}

Changes changes_of(const Comparison& c, const Side& base, const Side& fresh) {
  const Status status = c.exit_code() == 0   ? Status::pass
                        : c.exit_code() == 4 ? Status::skip
                                             : Status::fail;
  std::vector<Section> sections = causes(c, base, fresh, kShown);
  add_overlays(sections, base, fresh);
  return {result(c, base, fresh), comparison_summary(c), status, std::move(sections),
          lists(c, kShown)};
}

std::string sentence(const VerdictChange& turn) {
  std::string out = fmt::format("{}: {}", where(turn.place), one_line(turn.name));
  if (turn.others > 0) out += " and " + plural(turn.others, "other verdict");
  out += turn.before == turn.after ? fmt::format(": {} as before", turn.after)
                                   : fmt::format(": {} -> {}", turn.before, turn.after);
  return turn.why.empty() ? out : out + ": " + one_line(turn.why);
}

std::string sentence(const Change& change) {
  std::string out =
      fmt::format("{}: {}: {} -> {}", where(change.place), one_line(change.metric),
                  figure(change.before, change.unit), figure(change.after, change.unit));
  if (change.unit != "ns" && !change.unit.empty()) out += " " + one_line(change.unit);
  if (const std::string by = difference(change); !by.empty()) out += " (" + by + ")";
  if (change.place.ranks.size() > 1) out += fmt::format(" on rank {}", change.rank);
  out += steps(change);
  if (change.effect != Effect::changed)
    out += fmt::format(" [{} is worse, threshold {}]",
                       change.worse == Worse::any ? "any difference" : name_of(change.worse),
                       change.threshold);
  return out;
}

std::string missing_title(const Comparison& c) {
  return c.allow_missing ? "Missing in the new report, as allowed"
                         : "Missing in the new report: regressions unless --allow-missing";
}

std::string same_run_text(const Comparison& c) {
  return c.same_run ? "BASE and NEW are the same run: nothing can differ" : "";
}

std::string comparison_summary(const Comparison& c) {
  std::string out = fmt::format("{} ({}, {}): ", plural(c.comparisons(), "comparison"),
                                plural(c.verdicts, "verdict"), plural(c.metrics, "metric"));
  const auto missing = static_cast<std::int64_t>(c.missing.size());
  if (c.exit_code() == 4)
    return out + "nothing is in both reports" +
           (missing > 0 ? fmt::format(", {} missing in NEW", missing) : "");
  if (c.same()) return out + (c.same_run ? "no difference (the same run)" : "no difference");
  out += plural(c.regressions(), "regression");
  if (missing > 0 && !c.allow_missing) out += fmt::format(" ({} missing in NEW)", missing);
  out += ", " + plural(c.count(Effect::improvement), "improvement") + ", " +
         plural(c.count(Effect::changed), "other change");
  if (c.within > 0)
    out += fmt::format(", {} within the thresholds", plural(c.within, "difference"));
  if (missing > 0 && c.allow_missing) out += fmt::format(", {} missing in NEW (allowed)", missing);
  if (!c.fresh.empty()) out += fmt::format(", {} new", c.fresh.size());
  return out;
}

std::string comparison_text(const Comparison& c, const Side& base, const Side& fresh) {
  std::string out = fmt::format("base: {}\nnew:  {}\n\n", described(base), described(fresh));
  out += text_of(changes(c, base, fresh, kShown));
  if (c.same_run) out += fmt::format("note: {}\n", same_run_text(c));
  for (const std::string& threshold : c.unmatched)
    out += fmt::format("note: --threshold {} fits no metric that was compared\n", threshold);
  return out +
         fmt::format("thresholds: {}\n{}\n", fmt::join(c.thresholds, " "), comparison_summary(c));
}

std::string comparison_markdown(const Comparison& c, const Side& base, const Side& fresh) {
  std::string out = fmt::format("# tidemark compare: {}\n\n{}\n\n- base: {}\n- new: {}\n\n",
                                markdown_text(titled(c, base, fresh)), comparison_summary(c),
                                markdown_text(described(base)), markdown_text(described(fresh)));
  if (c.same_run) out += fmt::format("{}.\n\n", same_run_text(c));
  out += markdown_of(changes(c, base, fresh, kShown));
  return out + fmt::format("Thresholds: `{}`\n", fmt::join(c.thresholds, " "));
}

std::string comparison_html(const Comparison& c, const Side& base, const Side& fresh) {
  Document out{"compare", titled(c, base, fresh), c.exit_code() == 0 ? Status::pass : Status::fail};
  std::vector<std::string> top{comparison_summary(c), "Base: " + described(base),
                               "New: " + described(fresh)};
  if (c.same_run) top.push_back(same_run_text(c));
  out.sections.push_back({"", std::move(top)});
  std::vector<Section> sections = causes(c, base, fresh, kRows);
  add_overlays(sections, base, fresh);
  std::ranges::move(sections, std::back_inserter(out.sections));
  out.sections.push_back({"Both runs, overlaid", {}, charts(c, base, fresh)});
  if (out.sections.back().charts.empty()) out.sections.pop_back();
  for (Section& section : lists(c, kRows)) out.sections.push_back(std::move(section));
  out.sections.push_back({"Thresholds", {fmt::format("{}", fmt::join(c.thresholds, " "))}});
  return html(out);
}

}  // namespace tidemark
