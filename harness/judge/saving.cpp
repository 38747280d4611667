#include "harness/judge/saving.h"

#include <algorithm>
#include <cctype>
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <utility>

#include "harness/judge/counts.h"
#include "harness/record/reduced.h"

namespace tidemark {
namespace {

double lowest(const Expectation& form) { return form.formula.evaluate(); }
double highest(const Expectation& form) { return lowest(form) + static_cast<double>(form.slack); }

using Pair = std::pair<const Expectation*, const Expectation*>;  // before, after

/// The sums for the same figures: two forms, or two accounts of a figure without two forms.
std::vector<Pair> pairs(const std::vector<Expectation>& before,
                        const std::vector<Expectation>& after) {
  const auto figure = [](const Expectation& one) {
    return std::tie(one.statistic, one.phase, one.at_end, one.moment);
  };
  using Figure = std::tuple<Statistic, std::string, bool, std::string>;
  std::vector<Pair> all;
  std::set<Figure> paired;
  for (const Basis basis : {Basis::form, Basis::account}) {
    std::map<Figure, const Expectation*> known;
    for (const Expectation& one : before)
      if (one.basis == basis) known.emplace(figure(one), &one);
    for (const Expectation& one : after) {
      const auto match = known.find(figure(one));
      if (one.basis == basis && match != known.end() && paired.emplace(figure(one)).second)
        all.emplace_back(match->second, &one);
    }
  }
  return all;
}

// Symbols that mean different amounts in the two get the variant's name behind theirs.
std::string renamed(const Formula& formula, const Formula& other, const std::string& variant,
                    std::map<std::string, double>& values) {
  std::string text, name;
  for (const char c : formula.text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_') {
      name += c;
      continue;
    }
    const auto own = formula.values.find(name), others = other.values.find(name);
    const bool differs = own != formula.values.end() && others != other.values.end() &&
                         own->second != others->second;
    if (differs) name += "_" + variant;
    if (own != formula.values.end()) values[name] = own->second;
    text += std::exchange(name, {}) + c;
  }
  text.pop_back();
  return text;
}

bool by_accounts(const Expectation& before, const Expectation& after) {
  return before.basis == Basis::account || after.basis == Basis::account;
}

Verdict difference(const std::string& name, const Expectation& before, const std::string& baseline,
                   const Expectation& after, const std::string& variant, double measured) {
  std::map<std::string, double> values;
  const std::string text = "(" + renamed(before.formula, after.formula, baseline, values) +
                           ") - (" + renamed(after.formula, before.formula, variant, values) + ")";
  const Formula formula = reduced({text, std::move(values)});
  auto verdict = bounded(name, lowest(before) - highest(after), highest(before) - lowest(after),
                         measured, formula.text);
  verdict.variant = variant;
  verdict.values = formula.values;
  verdict.slack = *verdict.high - *verdict.low;
  if (verdict.slack > 0) verdict.why = after.slack > 0 ? after.why : before.why;
  if (by_accounts(before, after))
    verdict.why +=
        std::string(verdict.why.empty() ? "" : "; ") + "by accounts, read off the replay";
  return verdict;
}

// The highest sum of a variant's peaks on the ranks of its record: of every peak the form, or the
// account if it has none. `without`: a rank that has neither.
struct Worst {
  std::optional<Expectation> sum;
  double high = 0;
  int without = -1;
};
Worst worst_sum(const Scenario& scenario, const Trial& trial, const Variant& variant,
                const VariantRecord& record) {
  Worst worst;
  for (const RankRecord& rank : record.ranks) {
    std::set<std::string> phases, summed;  // with a sum of any statistic, and of the scenario's own
    for (auto& sum : sums_of(scenario, trial, variant, rank.rank)) {
      if (sum.at_end || !sum.moment.empty()) continue;
      phases.insert(sum.phase);
      if (sum.statistic != scenario.statistic || !summed.insert(sum.phase).second) continue;
      worst.high = std::max(worst.high, highest(sum));
      if (!worst.sum || lowest(sum) > lowest(*worst.sum)) worst.sum = std::move(sum);
    }
    if (phases.empty() || summed != phases) worst.without = rank.rank;
  }
  if (worst.sum) worst.sum->slack = static_cast<Bytes>(worst.high - lowest(*worst.sum));
  return worst;
}

std::pair<Bytes, int> worst_peak(const VariantRecord& record, Statistic statistic) {
  std::pair<Bytes, int> worst{-1, 0};
  for (const RankRecord& rank : record.ranks)
    if (const Bytes peak = rank.peak(statistic); peak > worst.first) worst = {peak, rank.rank};
  return worst;
}

std::string unheld(const VariantRecord& record) {
  for (const RankRecord& rank : record.ranks)
    if (!rank.unheld.empty()) return rank.unheld;
  return "";
}

}  // namespace

std::vector<Verdict> savings(const Trial& trial, const RankResult& baseline,
                             const std::vector<Expectation>& before, const RankResult& seen,
                             const std::vector<Expectation>& after) {
  std::vector<Verdict> verdicts;
  double most = 0, promised = 0;
  std::string where = "nowhere";
  for (const auto& [match, sum] : pairs(before, after)) {
    const Expectation& form = *sum;
    const double saved = measured(baseline.record, *match) - measured(seen.record, form);
    verdicts.push_back(difference("saving/" + figure_name(form), *match, baseline.variant->name,
                                  form, seen.variant->name, saved));
    promised = std::max(promised, *verdicts.back().low);
    if (saved - static_cast<double>(match->slack + form.slack) <= most) continue;
    most = saved;
    where = verdict_name(form);
  }
  if (seen.variant->role == Role::fixed && trial.schedule == "lagging") {
    Verdict verdict{.name = "saving/most", .variant = seen.variant->name};
    verdict.measured = most;
    verdict.low = promised > 0 ? 1 : 0;
    if (promised <= 0) verdict.high = 0;
    verdict.formula = promised > 0 ? "the largest saving of any phase and statistic > 0"
                                   : "no saving, as predicted";
    verdict.why = "largest in " + where;
    verdict.status = (promised > 0) == (most > 0) ? Status::pass : Status::fail;
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

std::vector<Verdict> step_savings(const Scenario& scenario, const Trial& trial,
                                  const TrialRecord& record) {
  std::vector<Verdict> verdicts;
  const auto variant_of = [&](const VariantRecord& one) -> const Variant& {
    return *std::ranges::find(scenario.variants, one.name, &Variant::name);
  };
  const auto ran = [](const VariantRecord& one) { return !one.ranks.empty(); };
  const auto baseline = std::ranges::find_if(record.variants, [&](const VariantRecord& one) {
    return one.role == Role::baseline && ran(one);
  });
  if (!scenario.forms && !scenario.replay) return verdicts;
  if (baseline == record.variants.end()) {
    const auto lost = std::ranges::find_if(record.variants, [](const VariantRecord& one) {
      return one.role == Role::baseline && !one.error.empty();
    });
    if (lost == record.variants.end()) return verdicts;
    for (const VariantRecord& one : record.variants)
      if (one.role == Role::fixed && ran(one))
        verdicts.push_back({.name = "saving/step",
                            .variant = one.name,
                            .why = "not judged: no baseline (" + lost->name + " did not finish)"});
    return verdicts;
  }
  const Worst before = worst_sum(scenario, trial, variant_of(*baseline), *baseline);
  const auto was = worst_peak(*baseline, scenario.statistic);
  for (const VariantRecord& one : record.variants) {
    if (one.role != Role::fixed || !ran(one)) continue;
    const Worst after = worst_sum(scenario, trial, variant_of(one), one);
    const auto is = worst_peak(one, scenario.statistic);
    const auto saved = static_cast<double>(was.first - is.first);
    Verdict verdict{.name = "saving/step", .variant = one.name};
    if (before.without < 0 && after.without < 0 && before.sum && after.sum) {
      verdict = difference("saving/step", *before.sum, baseline->name, *after.sum, one.name, saved);
      if (!scenario.formed.empty() && by_accounts(*before.sum, *after.sum))
        verdict.why += " (forms hold " + scenario.formed + ")";
    } else {
      verdict.measured = saved;
      verdict.why = std::string("no form of ") + name_of(scenario.statistic) +
                    " here: the allocator decides too much of it (see memory/form/requested)";
    }
    if (const auto why = unheld(*baseline) + unheld(one); !why.empty()) {
      verdict.status = Status::skip;
      verdict.why = why;
    }
    verdict.rank = is.second;
    verdicts.push_back(std::move(verdict));
  }
  return verdicts;
}

std::vector<PublishedFigure> published_figures(const Scenario& scenario, const Trial& trial,
                                               const TrialRecord& record) {
  const auto peak = [&](const std::string& variant) -> std::optional<Bytes> {
    const auto one = std::ranges::find(record.variants, variant, &VariantRecord::name);
    if (one == record.variants.end() || one->ranks.empty()) return std::nullopt;
    return worst_peak(*one, scenario.statistic).first;
  };
  std::vector<PublishedFigure> all;
  for (const Published& each : scenario.published) {
    const auto as_there = [&](const auto& setting) {
      return trial.params.at(setting.first) == setting.second;
    };
    if (!std::ranges::all_of(each.params, as_there)) continue;
    all.push_back(each.figure);
    all.back().before = peak(each.figure.from);
    all.back().after = peak(each.figure.to);
  }
  return all;
}

std::vector<Symbol> symbols_of(const Scenario& scenario, const Trial& trial, int rank) {
  std::map<std::string, std::set<double>> values_by_symbol;
  bool accounts = false;
  for (const auto& variant : scenario.variants) {
    if (scenario.leave_out && !scenario.leave_out(trial, variant).empty()) continue;
    for (const auto& sum : sums_of(scenario, trial, variant, rank)) {
      accounts = accounts || sum.basis == Basis::account;
      if (sum.statistic == Statistic::requested)
        for (const auto& [symbol, value] : sum.formula.values)
          values_by_symbol[symbol].insert(value);
    }
  }
  auto symbols = scenario.symbols;
  for (auto& symbol : symbols)
    if (const auto& values = values_by_symbol[symbol.name]; values.size() == 1)
      symbol.value = *values.begin();
  if (scenario.replay)
    symbols.push_back({"replay",
                       "the highest figure of the plan's allocations, run one by one through a "
                       "model of PyTorch's caching allocator"});
  if (accounts)
    symbols.push_back(
        {"unsplit",
         "in accounts of allocated and active bytes: bytes by which blocks are larger "
         "than their tensors, rounded up to 512",
         {MemoryKind::other}});
  return symbols;
}

}  // namespace tidemark
