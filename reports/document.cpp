#include "reports/document.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "reports/units.h"

namespace tidemark {
namespace {

constexpr double kAcross = 720, kDown = 240, kLeft = 78, kRight = 12, kTop = 12, kBottom = 34;
constexpr std::size_t kColumns = 600;

constexpr const char* kStyle = R"(
:root { color-scheme: light dark; --paper: #fcfcfb; --line: #e2e2de; --ink: #1d2327; --quiet: #667079;
  --fail: #b3261e; --pass: #2c7a51; --tone-0: #0f7490; --tone-1: #c2691c; --tone-2: #4f8f4f; --tone-3: #8a5fa8; }
@media (prefers-color-scheme: dark) { :root { --paper: #14181b; --line: #2d353a; --ink: #e4e8ea; --quiet: #95a1a9;
  --fail: #f2837a; --pass: #6fc296; --tone-0: #4fb8d3; --tone-1: #e8954a; --tone-2: #7fbf7f; --tone-3: #b491d0; } }
body { margin: 0 auto; max-width: 1120px; padding: 2rem 1.25rem 4rem; background: var(--paper); color: var(--ink);
  font: 15px/1.5 system-ui, sans-serif; font-variant-numeric: tabular-nums; overflow-wrap: anywhere; }
h1 { font-size: 1.7rem; line-height: 1.25; } h2 { font-size: 1.2rem; margin-top: 2.5rem; }
.quiet, figcaption { color: var(--quiet); font-size: 0.875rem; } .fail { color: var(--fail); } .pass { color: var(--pass); }
.scroller { overflow-x: auto; } table { border-collapse: collapse; font-size: 0.875rem; }
th, td { text-align: left; padding: 0.35rem 1rem 0.35rem 0; vertical-align: baseline; border-bottom: 1px solid var(--line); }
th { color: var(--quiet); font-weight: 500; white-space: nowrap; } th, td { overflow-wrap: normal; } td.figure { text-align: right; white-space: nowrap; }
figure { margin: 1.5rem 0 0; } svg { width: 100%; max-width: 720px; height: auto; } svg text { fill: var(--quiet); font-size: 11px; }
svg .grid { stroke: var(--line); } svg polyline { fill: none; stroke-width: 1.6; }
.tone-0 { stroke: var(--tone-0); color: var(--tone-0); } .tone-1 { stroke: var(--tone-1); color: var(--tone-1); }
.tone-2 { stroke: var(--tone-2); color: var(--tone-2); } .tone-3 { stroke: var(--tone-3); color: var(--tone-3); }
)";

struct Range {
  double low = std::numeric_limits<double>::infinity(), high = -low;
  void take(double value) {
    low = std::min(low, value);
    high = std::max(high, value);
  }
  bool empty() const { return low > high; }
  double place(double value) const { return high > low ? (value - low) / (high - low) : 0.5; }
};

/// Runs of finite points, thinned so that no extreme is lost.
std::vector<std::vector<std::pair<double, double>>> pieces(const Line& line, const Range& across) {
  std::vector<std::vector<std::pair<double, double>>> out(1);
  for (const auto& point : line.points) {
    if (!std::isfinite(point.first) || !std::isfinite(point.second)) {
      if (!out.back().empty()) out.emplace_back();
      continue;
    }
    out.back().push_back(point);
  }
  const auto column = [&](const auto& p) {
    return static_cast<std::size_t>(across.place(p.first) * static_cast<double>(kColumns));
  };
  for (auto& piece : out) {
    if (piece.size() <= 4 * kColumns) continue;
    std::vector<std::pair<double, double>> kept;
    for (std::size_t from = 0; from < piece.size();) {
      std::size_t to = from, low = from, high = from;
      for (; to < piece.size() && column(piece[to]) == column(piece[from]); ++to) {
        if (piece[to].second < piece[low].second) low = to;
        if (piece[to].second > piece[high].second) high = to;
      }
      std::vector<std::size_t> chosen{from, low, high, to - 1};
      std::ranges::sort(chosen);
      const auto repeated = std::ranges::unique(chosen);
      chosen.erase(repeated.begin(), repeated.end());
      for (std::size_t i : chosen) kept.push_back(piece[i]);
      from = to;
    }
    piece = std::move(kept);
  }
  return out;
}

std::string label(double value, const Chart& chart, const Range& up) {
  if (!chart.bytes) return fmt::format("{:.6g}", value);
  const ByteUnit unit = unit_for(static_cast<Bytes>(up.high));
  return unit(static_cast<Bytes>(value)) + " " + unit.name;
}

}  // namespace

std::string html_text(const std::string& text) {
  std::string out;
  for (char c : markup_text(text)) c == '\'' ? out += "&#39;" : out += c;
  return out;
}

std::string html_document(const std::string& title, const std::string& body) {
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<title>{}</title>\n<style>{}</style>\n<body>\n{}</body>\n</html>\n",
      html_text(title), kStyle, body);
}

std::string html_table(const std::vector<std::vector<std::string>>& rows) {
  std::string out = "<div class=\"scroller\"><table>\n";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    out += "<tr>";
    for (const std::string& cell : rows[r]) {
      if (r == 0) {
        out += "<th scope=\"col\">" + html_text(cell) + "</th>";
      } else {
        const bool figure = !cell.empty() && std::string_view("0123456789+-").find(cell[0]) !=
                                                 std::string_view::npos;
        out += (figure ? "<td class=\"figure\">" : "<td>") + html_text(cell) + "</td>";
      }
    }
    out += "</tr>\n";
  }
  return out + "</table></div>\n";
}

std::string svg(const Chart& chart) {
  Range across, up;
  for (const Line& line : chart.lines) {
    for (const auto& [x, y] : line.points) {
      if (!std::isfinite(x) || !std::isfinite(y)) continue;
      across.take(x);
      up.take(y);
    }
  }
  if (across.empty()) return "";
  if (chart.bytes && up.low < up.high / 2) up.take(0);  // else nothing but the difference matters
  const auto at_x = [&](double x) { return kLeft + across.place(x) * (kAcross - kLeft - kRight); };
  const auto at_y = [&](double y) { return kTop + (1 - up.place(y)) * (kDown - kTop - kBottom); };
  std::string out = fmt::format(
      "<figure><figcaption>{}</figcaption><svg viewBox=\"0 0 {} {}\" role=\"img\" "
      "aria-label=\"{}\">\n",
      html_text(chart.title), kAcross, kDown, html_text(chart.title));
  for (int tick = 0; tick <= (up.high > up.low ? 4 : 0); ++tick) {
    const double value = up.low + (up.high - up.low) * tick / 4, y = at_y(value);
    out += fmt::format(
        "<line class=\"grid\" x1=\"{}\" x2=\"{}\" y1=\"{:.1f}\" y2=\"{:.1f}\"/><text x=\"{}\" "
        "y=\"{:.1f}\" text-anchor=\"end\">{}</text>\n",
        kLeft, kAcross - kRight, y, y, kLeft - 6, y + 4, html_text(label(value, chart, up)));
  }
  for (double x : {across.low, across.high})
    out += fmt::format("<text x=\"{:.1f}\" y=\"{}\" text-anchor=\"middle\">{:.6g}</text>\n",
                       std::clamp(at_x(x), kLeft, kAcross - 28), kDown - 18, x);
  out += fmt::format("<text x=\"{}\" y=\"{}\" text-anchor=\"middle\">{}</text>\n",
                     (kLeft + kAcross) / 2, kDown - 4, html_text(chart.x));
  for (std::size_t i = 0; i < chart.lines.size(); ++i) {
    for (const auto& piece : pieces(chart.lines[i], across)) {
      if (piece.empty()) continue;
      out += fmt::format("<polyline class=\"tone-{}\"{} points=\"", i % 4,
                         i % 2 == 1 ? " stroke-dasharray=\"5 3\"" : "");
      for (const auto& [x, y] : piece) out += fmt::format("{:.1f},{:.1f} ", at_x(x), at_y(y));
      if (piece.size() == 1)
        out += fmt::format("{:.1f},{:.1f}", at_x(piece[0].first) + 2, at_y(piece[0].second));
      out += "\"/>\n";
    }
  }
  out += "</svg><p class=\"quiet\">";
  for (std::size_t i = 0; i < chart.lines.size(); ++i)
    out += fmt::format("<b class=\"tone-{}\">{}</b> {} ", i % 4, i % 2 == 1 ? "- -" : "&mdash;",
                       html_text(chart.lines[i].name));
  return out + html_text(chart.y) + "</p></figure>\n";
}

}  // namespace tidemark
