#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <set>

#include "reports/compare/pairs.h"
#include "reports/compare/render.h"
#include "reports/document.h"
#include "reports/overview.h"
#include "reports/units.h"

namespace tidemark {
namespace {

constexpr std::size_t kRows = 500, kPictures = 12;

/// Where a picture is wanted: what changed, the worst first; a rank where the change has one.
struct Spot {
  std::string trial, variant;
  int rank;
};

std::vector<Spot> spots(const Comparison& c) {
  std::vector<Spot> out;
  std::set<std::pair<std::string, std::string>> seen;
  const auto add = [&](const Place& place, int rank) {
    if (out.size() < kPictures && !place.variant.empty() &&
        seen.emplace(place.trial, place.variant).second)
      out.push_back({place.trial, place.variant, std::max(rank, 0)});
  };
  for (Effect effect : {Effect::regression, Effect::improvement, Effect::changed}) {
    for (const Change& change : c.changes)
      if (change.effect == effect) add(change.place, change.rank);
    for (const Turn& turn : c.turns)
      if (turn.effect == effect)
        add(turn.place, turn.place.ranks.empty() ? 0 : turn.place.ranks[0]);
  }
  return out;
}

const VariantRecord* variant_of(const TrialRecord& trial, const std::string& name) {
  const auto found = std::ranges::find(trial.variants, name, &VariantRecord::name);
  return found == trial.variants.end() ? nullptr : &*found;
}

Line memory_line(const std::string& name, const VariantRecord& variant, int rank) {
  Line out{name, {}};
  const auto found = std::ranges::find(variant.ranks, rank, &RankRecord::rank);
  if (found == variant.ranks.end()) return out;
  for (const Sample& s : found->timeline)
    out.points.emplace_back(static_cast<double>(s.time) * 1e-6, static_cast<double>(s.active));
  return out;
}

Line loss_line(const std::string& name, const VariantRecord& variant) {
  Line out{name, {}};
  for (const LossPoint& p : variant.loss)
    if (p.value) out.points.emplace_back(p.step, *p.value);
  return out;
}

std::string pictures(const Comparison& c, const Side& base, const Side& fresh) {
  std::string out;
  const Pairs pairs = pair_trials(base.report, fresh.report);
  for (const Spot& spot : spots(c)) {
    const auto pair = std::ranges::find(pairs.trials, spot.trial, &TrialPair::name);
    if (pair == pairs.trials.end()) continue;
    const VariantRecord *a = variant_of(*pair->base, spot.variant),
                        *b = variant_of(*pair->fresh, spot.variant);
    if (a == nullptr || b == nullptr) continue;
    const std::string name = spot.trial + " " + spot.variant;
    out += svg({fmt::format("{}, rank {}: active memory over the last step", name, spot.rank),
                "ms",
                "active bytes",
                true,
                {memory_line("base", *a, spot.rank), memory_line("new", *b, spot.rank)}});
    out += svg(
        {name + ": loss", "step", "loss", false, {loss_line("base", *a), loss_line("new", *b)}});
  }
  return out.empty() ? out : "<h2>Both, overlaid</h2>\n" + out;
}

std::string ranks(const Place& place) {
  return place.ranks.empty() ? std::string() : ranks_text(place.ranks);
}

std::string value(const std::optional<double>& v, const std::string& unit) {
  return v ? exact(*v) + (unit.empty() ? "" : " " + unit) : "no value";
}

std::string tables(const Comparison& c, Effect effect) {
  std::string out;
  std::vector<std::vector<std::string>> rows{
      {"verdict", "trial", "variant", "ranks", "base", "new", "why"}};
  for (const Turn& t : c.turns)
    if (t.effect == effect && rows.size() <= kRows)
      rows.push_back(
          {t.others > 0 ? t.name + " and " + plural(t.others, "other") : t.name, t.place.trial, t.place.variant, ranks(t.place), t.before, t.after, t.why});
  if (rows.size() > 1) out += html_table(rows);
  rows = {{"metric", "trial", "variant", "ranks", "base", "new", "step", "worse", "threshold"}};
  for (const Change& m : c.changes)
    if (m.effect == effect && rows.size() <= kRows)
      rows.push_back({m.metric, m.place.trial, m.place.variant, ranks(m.place),
                      value(m.before, m.unit), value(m.after, m.unit),
                      m.step < 0 ? "" : std::to_string(m.step), name_of(m.worse), m.threshold});
  if (rows.size() > 1) out += html_table(rows);
  if (static_cast<std::size_t>(c.count(effect)) > kRows)
    out += fmt::format(
        "<p class=\"quiet\">At most {} of a kind are shown; --format json has them all.</p>\n",
        kRows);
  return out;
}

std::string names(const std::string& title, const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string out = fmt::format("<h2>{} ({})</h2>\n<ul>\n", title, lines.size());
  for (std::size_t i = 0; i < std::min(lines.size(), kRows); ++i)
    out += "<li>" + html_text(lines[i]) + "</li>\n";
  return out + "</ul>\n";
}

}  // namespace

std::string comparison_html(const Comparison& c, const Side& base, const Side& fresh) {
  const int code = c.exit_code();
  const std::string verdict = code == 1   ? plural(c.regressions(), "regression")
                              : code == 4 ? "Nothing was compared"
                              : c.same()  ? "No difference"
                                          : "No regression";
  std::string body =
      fmt::format("<h1 class=\"{}\">{}</h1>\n<p>{}</p>\n", code == 0 ? "pass" : "fail", verdict,
                  html_text(comparison_summary(c)));
  if (c.same_run) body += fmt::format("<p>{}</p>\n", same_run_text(c));
  for (const auto& [name, side] : {std::pair{"base", &base}, {"new", &fresh}})
    body += fmt::format("<p class=\"quiet\">{}: {}, run {}, {}, tidemark {} {}</p>\n", name,
                        html_text(side->name), html_text(side->report.run.id),
                        html_text(side->report.run.started), html_text(side->report.run.tidemark),
                        html_text(side->report.run.git));
  for (const auto& [title, effect] : {std::pair{"Regressions", Effect::regression},
                                      {"Improvements", Effect::improvement},
                                      {"Other changes", Effect::changed}}) {
    if (c.count(effect) == 0) continue;
    body += fmt::format("<h2>{} ({})</h2>\n", title, c.count(effect)) + tables(c, effect);
    if (effect == Effect::regression) body += pictures(c, base, fresh);
  }
  if (c.count(Effect::regression) == 0) body += pictures(c, base, fresh);
  body += names(missing_title(c), c.missing) + names("New", c.fresh) +
          names("The runs were made differently", c.differently);
  body += fmt::format("<p class=\"quiet\">Thresholds: {}</p>\n",
                      html_text(fmt::format("{}", fmt::join(c.thresholds, " "))));
  return html_document("tidemark compare: " + verdict, body);
}

}  // namespace tidemark
