#include "reports/compare/render.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <cmath>

#include "reports/markdown.h"
#include "reports/overview.h"
#include "reports/units.h"

namespace tidemark {
namespace {

constexpr std::size_t kShown = 40;  // of each kind; JSON has them all

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

template <class Line>
void list(std::string& out, const std::string& title, std::size_t count, const char* bullet,
          Line line) {
  if (count == 0) return;
  out += title;
  for (std::size_t i = 0; i < std::min(count, kShown); ++i) out += bullet + line(i) + "\n";
  if (count > kShown)
    out += fmt::format("{}and {} more (--format json has them all)\n", bullet, count - kShown);
  out += "\n";
}

std::vector<std::string> sentences(const Comparison& c, Effect effect) {
  std::vector<std::string> out;
  for (const Turn& turn : c.turns)
    if (turn.effect == effect) out.push_back(sentence(turn));
  for (const Change& change : c.changes)
    if (change.effect == effect) out.push_back(sentence(change));
  return out;
}

struct Words {
  const char *before, *after, *bullet;
  std::string (*text)(const std::string&);
};

std::string body(const Comparison& c, const Words& words) {
  std::string out;
  const auto part = [&](const std::string& title, const std::vector<std::string>& lines) {
    list(out, fmt::format("{}{} ({}){}", words.before, title, lines.size(), words.after),
         lines.size(), words.bullet, [&](std::size_t i) { return words.text(lines[i]); });
  };
  part("Regressions", sentences(c, Effect::regression));
  part(missing_title(c), c.missing);
  part("Improvements", sentences(c, Effect::improvement));
  part("Other changes", sentences(c, Effect::changed));
  part("New", c.fresh);
  part("The runs were made differently", c.differently);
  return out;
}

}  // namespace

std::string sentence(const Turn& turn) {
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
  out += body(c, {"", "\n", "  ", [](const std::string& text) { return one_line(text); }});
  if (c.same_run) out += fmt::format("note: {}\n", same_run_text(c));
  for (const std::string& threshold : c.unmatched)
    out += fmt::format("note: --threshold {} fits no metric that was compared\n", threshold);
  return out +
         fmt::format("thresholds: {}\n{}\n", fmt::join(c.thresholds, " "), comparison_summary(c));
}

std::string comparison_markdown(const Comparison& c, const Side& base, const Side& fresh) {
  std::string out = fmt::format("# tidemark compare: {}\n\n{}\n\n- base: {}\n- new: {}\n\n",
                                c.exit_code() == 0   ? "no regression"
                                : c.exit_code() == 4 ? "nothing was compared"
                                                     : plural(c.regressions(), "regression"),
                                comparison_summary(c), markdown_text(described(base)),
                                markdown_text(described(fresh)));
  if (c.same_run) out += fmt::format("{}.\n\n", same_run_text(c));
  out += body(c, {"## ", "\n\n", "- ", markdown_text});
  return out + fmt::format("Thresholds: `{}`\n", fmt::join(c.thresholds, " "));
}

}  // namespace tidemark
