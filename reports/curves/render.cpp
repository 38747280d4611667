#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/record/json.h"
#include "harness/record/units.h"
#include "reports/curves/parity.h"
#include "reports/html.h"
#include "reports/renderings.h"
#include "reports/thin.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kRows = 200;

/// Shortest decimal that reads back as the same number, of the type compared.
std::string value(double v, bool single) {
  return single ? fmt::format("{}", static_cast<float>(v)) : fmt::format("{}", v);
}

std::string distance(const Divergence& d, const ParityRule& rule) {
  std::string out = fmt::format("differ by {:.6g}", d.difference);
  if (std::isfinite(d.difference) && d.a != 0)
    out += fmt::format(", relative {:.6g}", d.difference / std::abs(d.a));
  if (std::isfinite(d.ulps))
    out += fmt::format(", {} ULP of {}", exact(d.ulps), rule.single ? "float32" : "float64");
  if (d.ulps == 0) out += " (the zeros' signs)";
  return out;
}

std::string at(const Divergence& d, const ParityRule& rule) {
  return fmt::format("step {}: {} and {}, {}", d.step, value(d.a, rule.single),
                     value(d.b, rule.single), distance(d, rule));
}

std::vector<std::string> lines(const CurveParity& c, const ParityRule& rule) {
  std::vector<std::string> out;
  if (c.first) {
    out.push_back("first divergence at " + at(*c.first, rule));
    if (c.largest->step != c.first->step)
      out.push_back("largest divergence at " + at(*c.largest, rule));
    out.push_back(fmt::format("{} of {} steps diverge", c.diverged, c.compared));
  } else if (c.furthest) {
    out.push_back(fmt::format("{} of {} steps differ within the rule; furthest at {}", c.different,
                              c.compared, at(*c.furthest, rule)));
  } else if (c.compared > 0) {
    out.push_back(fmt::format("all {} steps are the same", c.compared));
  }
  if (c.not_a_number > 0)
    out.push_back(fmt::format("{} of {} steps are NaN in both", c.not_a_number, c.compared));
  const char* forgiven = rule.common ? " (allowed by --common)" : "";
  for (const auto& [side, steps] : {std::pair{"B", c.missing_in_b}, {"A", c.missing_in_a}})
    if (!steps.empty())
      out.push_back(fmt::format("missing in {}: {} step{}: {}{}", side, steps.size(),
                                steps.size() == 1 ? "" : "s", steps_text(steps), forgiven));
  return out;
}

std::string title(const CurveParity& c) { return one_line(c.a == c.b ? c.a : c.a + " and " + c.b); }

constexpr const char* kRules =
    "NaN equals NaN alone, an infinity the same infinity alone; every step must hold";

Json number(double v) {
  if (std::isnan(v)) return "nan";
  if (std::isinf(v)) return v > 0 ? "inf" : "-inf";
  return v;
}

Json divergence_json(const std::optional<Divergence>& d) {
  if (!d) return nullptr;
  return {{"step", d->step},
          {"a", number(d->a)},
          {"b", number(d->b)},
          {"difference", number(d->difference)},
          {"ulps", number(d->ulps)}};
}

Line line(const std::string& name, const CurveParity& c, double Divergence::*member) {
  Line out{name};
  const auto at = [&](std::size_t i) {
    return std::isfinite(c.steps[i].*member) ? c.steps[i].*member : 0;
  };
  for (const std::size_t i : extremes(c.steps.size(), kLinePoints, {at}))
    out.points.emplace_back(static_cast<double>(c.steps[i].step), c.steps[i].*member);
  return out;
}

}  // namespace

std::string parity_summary(const ParityReport& report) {
  std::int64_t diverged = 0, missing = 0;
  for (const CurveParity& c : report.curves) {
    diverged += c.diverged;
    missing += static_cast<std::int64_t>(c.missing_in_a.size() + c.missing_in_b.size());
  }
  return fmt::format("{} comparison{} in {} curve{}: {} diverged, {} missing", report.compared(),
                     report.compared() == 1 ? "" : "s", report.curves.size(),
                     report.curves.size() == 1 ? "" : "s", diverged, missing);
}

std::string parity_text(const ParityReport& report) {
  std::string out = fmt::format("A: {} ({})\nB: {} ({})\nrule: {}; {}\n", one_line(report.a.path),
                                report.a.format, one_line(report.b.path), report.b.format,
                                report.rule.text(), kRules);
  for (const CurveParity& c : report.curves) {
    out += "\n" + title(c) + "\n";
    for (const std::string& text : lines(c, report.rule)) out += "  " + text + "\n";
  }
  return out + "\n" + parity_summary(report) + "\n";
}

std::string parity_markdown(const ParityReport& report) {
  std::string out = fmt::format(
      "# tidemark compare losses: {}\n\n{}\n\n- A: {} ({})\n- B: {} ({})\n- rule: {}; {}\n",
      report.exit_code() == 0 ? "the curves hold" : "the curves do not hold",
      parity_summary(report), markdown_text(report.a.path), report.a.format,
      markdown_text(report.b.path), report.b.format, markdown_text(report.rule.text()), kRules);
  for (const CurveParity& c : report.curves) {
    out += "\n## " + markdown_text(title(c)) + "\n\n";
    for (const std::string& text : lines(c, report.rule)) out += "- " + markdown_text(text) + "\n";
  }
  return out;
}

std::string parity_json(const ParityReport& report) {
  constexpr const char* kModes[] = {"exact", "tolerance", "ulp"};
  const ParityRule& rule = report.rule;
  Json out{{"schema", "tidemark/parity"},
           {"schema_version", "1.0"},
           {"a", {{"file", report.a.path}, {"format", report.a.format}}},
           {"b", {{"file", report.b.path}, {"format", report.b.format}}},
           {"rule",
            {{"mode", kModes[static_cast<std::size_t>(rule.mode)]},
             {"rtol", rule.rtol},
             {"atol", rule.atol},
             {"ulp", rule.ulp},
             {"precision", rule.single ? "float32" : "float64"},
             {"common", rule.common}}},
           {"comparisons", report.compared()},
           {"curves", Json::array()},
           {"exit_code", report.exit_code()}};
  for (const CurveParity& c : report.curves)
    out["curves"].push_back({{"a", c.a},
                             {"b", c.b},
                             {"holds", c.holds(rule)},
                             {"compared", c.compared},
                             {"different", c.different},
                             {"diverged", c.diverged},
                             {"nan_in_both", c.not_a_number},
                             {"first", divergence_json(c.first)},
                             {"largest", divergence_json(c.largest)},
                             {"furthest", divergence_json(c.furthest)},
                             {"missing_in_a", c.missing_in_a},
                             {"missing_in_b", c.missing_in_b}});
  return json_text(out);
}

std::string parity_html(const ParityReport& report) {
  const ParityRule& rule = report.rule;
  const int code = report.exit_code();
  const char* verdict = code == 0   ? "The curves hold"
                        : code == 4 ? "No number was compared"
                                    : "The curves do not hold";
  Document out{"parity", verdict, code == 0 ? Status::pass : Status::fail};
  out.sections.push_back(
      {"",
       {parity_summary(report), fmt::format("A: {} ({})", report.a.path, report.a.format),
        fmt::format("B: {} ({})", report.b.path, report.b.format),
        fmt::format("Rule: {}; {}", rule.text(), kRules)}});
  for (const CurveParity& c : report.curves) {
    Section section{title(c), lines(c, rule), {}, {{"step", "A", "B", "difference", "ULP"}}};
    section.charts.push_back({title(c),
                              "step",
                              "",
                              false,
                              {line("A", c, &Divergence::a), line("B", c, &Divergence::b)}});
    if (c.different > 0)
      section.charts.push_back({"Distance",
                                "step",
                                rule.single ? "ULP of float32" : "ULP of float64",
                                false,
                                {line("|b - a|", c, &Divergence::ulps)}});
    for (const Divergence& d : c.steps)
      if (!d.holds && section.rows.size() <= kRows)
        section.rows.push_back({std::to_string(d.step), value(d.a, rule.single),
                                value(d.b, rule.single), fmt::format("{:.6g}", d.difference),
                                exact(d.ulps)});
    out.sections.push_back(std::move(section));
  }
  return html(out);
}

}  // namespace tidemark
