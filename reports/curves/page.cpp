// The page of a comparison of curves.
#include <fmt/format.h>

#include "harness/record/units.h"
#include "reports/curves/picture.h"
#include "reports/curves/render.h"
#include "reports/html.h"

namespace tidemark {
namespace {

constexpr std::size_t kRows = 200;

std::vector<std::vector<std::string>> rows_of(const CurveParity& c) {
  if (c.noise) {
    std::vector<std::vector<std::string>> rows{
        {"steps", "mean of B - A", "standard error", "alone noise up to"}};
    for (const NoiseWindow& w : c.noise->windows)
      rows.push_back({fmt::format("{} to {}", w.from, w.to), fmt::format("{:.4g}", w.mean),
                      fmt::format("{:.2g}", w.error), fmt::format("{:.3g}", w.bound)});
    return rows;
  }
  std::vector<std::vector<std::string>> rows{{"step", "A", "B", "difference", "ULP"}};
  for (const Divergence& d : c.steps)
    if ((!d.holds || d.ulps != 0) && rows.size() <= kRows)
      rows.push_back({std::to_string(d.step), value_text(d.a, c.precision),
                      value_text(d.b, c.precision), fmt::format("{:.6g}", d.difference),
                      exact(d.ulps)});
  return rows;
}

}  // namespace

std::string parity_html(const ParityReport& report) {
  const int code = report.exit_code();
  const bool one = report.curves.size() == 1 && report.curves[0].compared > 0;
  const std::string verdict = code == 4   ? "No step was compared"
                              : one       ? verdict_text(report.curves[0], report.rule)
                              : code == 0 ? "The curves hold"
                                          : "The curves do not hold";
  Document out{"parity", verdict, code == 0 ? Status::pass : Status::fail};
  std::vector<std::string> words{parity_summary(report)};
  for (const std::string& line : side_lines(report)) words.push_back(line);
  words.push_back("Rule: " + rule_text(report.rule));
  out.sections.push_back({"", words});
  for (const CurveParity& c : report.curves) {
    Section section{parity_title(c), parity_lines(c, report.rule), {}, rows_of(c)};
    if (!c.steps.empty()) section.pictures.push_back({parity_title(c), curves_picture(c)});
    out.sections.push_back(std::move(section));
  }
  return html(out);
}

}  // namespace tidemark
