#include "reports/curves/render.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/record/json.h"
#include "harness/record/ranges_text.h"
#include "harness/record/units.h"
#include "reports/curves/parity.h"
#include "reports/renderings.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;
constexpr double kReadable = 1e6;  // ULPs: more say less than the relative difference

std::string distance(const Divergence& d, Precision precision) {
  std::string out = fmt::format("differ by {:.6g}", d.difference);
  if (std::isfinite(d.difference) && d.a != 0)
    out += fmt::format(", relative {:.6g}", d.difference / std::abs(d.a));
  if (d.ulps < kReadable) out += fmt::format(", {} ULP of {}", exact(d.ulps), name_of(precision));
  if (d.ulps == 0) out += " (the zeros' signs)";
  return out;
}

std::string at(const Divergence& d, Precision precision) {
  return fmt::format("step {}: {} and {}, {}", d.step, value_text(d.a, precision),
                     value_text(d.b, precision), distance(d, precision));
}

/// How many steps have other bits, and by how much at most. No verdict depends on it.
std::string of_bits(const CurveParity& c) {
  return fmt::format("{} of {} steps have other bits, from step {} on; furthest at {}", c.different,
                     c.compared, *c.bits_apart, at(*c.furthest, c.precision));
}

std::vector<std::string> rule_lines(const CurveParity& c) {
  std::vector<std::string> out;
  if (c.first) {
    out.push_back("first divergence at " + at(*c.first, c.precision));
    if (c.largest->step != c.first->step)
      out.push_back("largest divergence at " + at(*c.largest, c.precision));
    out.push_back(fmt::format("{} of {} steps diverge", c.diverged, c.compared));
  } else if (c.furthest) {
    out.push_back(fmt::format("{} of {} steps differ within the rule; furthest at {}", c.different,
                              c.compared, at(*c.furthest, c.precision)));
  } else if (c.compared > 0) {
    out.push_back(fmt::format("all {} steps are the same", c.compared));
  }
  if (c.lost) out.push_back(verdict_text(c, {}));
  return out;
}

}  // namespace

std::string value_text(double v, Precision precision) {
  return precision == Precision::fp64 ? fmt::format("{}", v)
                                      : fmt::format("{}", static_cast<float>(v));
}

std::vector<std::string> parity_lines(const CurveParity& c, const ParityRule& rule) {
  std::vector<std::string> out;
  if (rule.mode == ParityMode::noise) {
    if (c.compared > 0) out.push_back(verdict_text(c, rule));
    if (c.noise)
      for (const std::string& line : noise_text(*c.noise)) out.push_back(line);
    if (c.furthest) out.push_back(of_bits(c));
  } else {
    out = rule_lines(c);
  }
  if (c.not_a_number > 0)
    out.push_back(fmt::format("{} of {} steps are NaN in both", c.not_a_number, c.compared));
  if (c.missing_in_runs > 0)
    out.push_back(fmt::format("{} missing in other runs of A and not judged",
                              plural(c.missing_in_runs, "step is", "steps are")));
  const char* forgiven = rule.common      ? " (allowed by --common)"
                         : c.compared > 0 ? " (--common compares the others alone)"
                                          : "";
  for (const auto& [side, steps] : {std::pair{"B", c.missing_in_b}, {"A", c.missing_in_a}})
    if (!steps.empty())
      out.push_back(fmt::format("missing in {}: {} step{}: {}{}", side, steps.size(),
                                steps.size() == 1 ? "" : "s", ranges_text(steps, kStepRanges),
                                forgiven));
  return out;
}

std::vector<std::string> side_lines(const ParityReport& report) {
  std::vector<std::string> out;
  const auto add = [&](const std::string& name, const ParitySide& side) {
    out.push_back(fmt::format("{}: {} ({})", name, one_line(side.path), side.format));
    for (const std::string& note : side.notes)
      out.push_back(fmt::format("{}: {}", name, one_line(note)));
  };
  add("A", report.a);
  for (const ParitySide& run : report.runs) add("another run of A", run);
  add("B", report.b);
  return out;
}

std::string rule_text(const ParityRule& rule) {
  return rule.text() + (rule.mode == ParityMode::noise
                            ? ""
                            : "; NaN equals NaN alone, an infinity the same infinity alone; every "
                              "step must hold");
}

namespace {

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

Json noise_json(const std::optional<NoiseVerdict>& noise) {
  if (!noise) return nullptr;
  const auto of_stretch = [](const Stretch& s) -> Json {
    return {{"from", s.from},   {"to", s.to},       {"to_end", s.to_end}, {"mean", s.mean},
            {"error", s.error}, {"times", s.times}, {"needed", s.needed}};
  };
  Json out{{"differs", noise->differs()},
           {"false_alarm", kFalseAlarm},
           {"steps", noise->steps},
           {"runs_of_a", std::max<std::size_t>(noise->runs, 1)},
           {"window", noise->window},
           {"mean", noise->mean},
           {"error", noise->error},
           {"noise", noise->noise},
           {"inflation", noise->inflation},
           {"stretch", noise->stretch ? of_stretch(*noise->stretch) : Json(nullptr)},
           {"spike_times", noise->spike_times},
           {"spikes", Json::array()},
           {"windows", Json::array()}};
  for (const Spike& one : noise->spikes)
    out["spikes"].push_back(
        {{"step", one.step}, {"difference", one.difference}, {"times", one.times}});
  for (const NoiseWindow& one : noise->windows)
    out["windows"].push_back({{"from", one.from},
                              {"to", one.to},
                              {"mean", one.mean},
                              {"error", one.error},
                              {"bound", one.bound}});
  return out;
}

Json side_json(const ParitySide& side) {
  return {{"file", side.path}, {"format", side.format}, {"notes", side.notes}};
}

}  // namespace

std::string parity_summary(const ParityReport& report) {
  std::int64_t diverged = 0, missing = 0, differ = 0;
  ParityRule alone = report.rule;
  alone.common = true;  // missing steps are counted by themselves
  for (const CurveParity& c : report.curves) {
    differ += !c.holds(alone);
    diverged += c.diverged;
    missing += static_cast<std::int64_t>(c.missing_in_a.size() + c.missing_in_b.size());
  }
  const auto curves = static_cast<std::int64_t>(report.curves.size());
  if (report.rule.mode == ParityMode::noise)
    return fmt::format("{} in {}: {}, {} missing", plural(report.compared(), "comparison"),
                       plural(curves, "curve"),
                       report.compared() == 0 ? "nothing was compared"
                       : differ == 0          ? "no difference"
                                              : plural(differ, "differs", "differ"),
                       missing);
  return fmt::format("{} comparison{} in {} curve{}: {} diverged, {} missing", report.compared(),
                     report.compared() == 1 ? "" : "s", report.curves.size(),
                     report.curves.size() == 1 ? "" : "s", diverged, missing);
}

std::string parity_text(const ParityReport& report) {
  std::string out;
  for (const std::string& line : side_lines(report)) out += line + "\n";
  out += "rule: " + rule_text(report.rule) + "\n";
  for (const CurveParity& c : report.curves) {
    out += "\n" + parity_title(c) + "\n";
    for (const std::string& text : parity_lines(c, report.rule)) out += "  " + text + "\n";
  }
  return out + "\n" + parity_summary(report) + "\n";
}

std::string parity_markdown(const ParityReport& report) {
  std::string out =
      fmt::format("# tidemark compare losses: {}\n\n{}\n\n",
                  report.exit_code() == 0 ? "the curves hold" : "the curves do not hold",
                  parity_summary(report));
  for (const std::string& line : side_lines(report)) out += "- " + markdown_text(line) + "\n";
  out += "- rule: " + markdown_text(rule_text(report.rule)) + "\n";
  for (const CurveParity& c : report.curves) {
    out += "\n## " + markdown_text(parity_title(c)) + "\n\n";
    for (const std::string& text : parity_lines(c, report.rule))
      out += "- " + markdown_text(text) + "\n";
  }
  return out;
}

std::string parity_json(const ParityReport& report) {
  const ParityRule& rule = report.rule;
  Json out{{"schema", "tidemark/parity"},
           {"schema_version", "2.0"},
           {"a", side_json(report.a)},
           {"b", side_json(report.b)},
           {"runs_of_a", Json::array()},
           {"rule",
            {{"mode", name_of(rule.mode)},
             {"rtol", rule.rtol},
             {"atol", rule.atol},
             {"ulp", rule.ulp},
             {"precision", rule.precision ? Json(name_of(*rule.precision)) : Json("auto")},
             {"common", rule.common}}},
           {"comparisons", report.compared()},
           {"curves", Json::array()},
           {"exit_code", report.exit_code()}};
  for (const ParitySide& run : report.runs) out["runs_of_a"].push_back(side_json(run));
  for (const CurveParity& c : report.curves)
    out["curves"].push_back({{"a", c.a},
                             {"b", c.b},
                             {"holds", c.holds(rule)},
                             {"verdict", c.compared > 0 ? verdict_text(c, rule) : ""},
                             {"precision", name_of(c.precision)},
                             {"compared", c.compared},
                             {"different", c.different},
                             {"diverged", c.diverged},
                             {"nan_in_both", c.not_a_number},
                             {"first", divergence_json(c.first)},
                             {"largest", divergence_json(c.largest)},
                             {"furthest", divergence_json(c.furthest)},
                             {"not_finite_from", c.lost ? Json(*c.lost) : Json(nullptr)},
                             {"noise", noise_json(c.noise)},
                             {"missing_in_a", c.missing_in_a},
                             {"missing_in_b", c.missing_in_b}});
  return json_text(out);
}

}  // namespace tidemark
