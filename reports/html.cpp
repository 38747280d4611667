#include "reports/html.h"

#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string_view>

#include "harness/record/units.h"
#include "reports/headline.h"
#include "reports/markup.h"
#include "reports/page_data.h"
#include "reports/renderings.h"
#include "reports/tests_page.h"
#include "reports/thin.h"

namespace tidemark {

extern const std::string_view kPage;  // from page/, by embed.py

namespace {

std::string filled(const std::string& title, const std::string& body, const std::string& data) {
  std::string out;
  std::string_view rest = kPage;
  for (const auto& [hole, text] :
       {std::pair<std::string_view, const std::string&>{"@TITLE@", title},
        {"@BODY@", body},
        {"@DATA@", data}}) {
    const auto at = rest.find(hole);
    if (at == std::string_view::npos)
      throw std::logic_error(fmt::format("page/index.html has no {}", hole));
    out.append(rest.substr(0, at)).append(text);
    rest.remove_prefix(at + hole.size());
  }
  return out.append(rest);
}

nlohmann::ordered_json line_json(const Line& line) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  const auto level = [&](std::size_t i) {
    return std::isfinite(line.points[i].second) ? line.points[i].second : 0;
  };
  for (std::size_t i : extremes(line.points.size(), kLinePoints, {level})) {
    const auto& [x, y] = line.points[i];
    if (std::isfinite(x))
      points.push_back({x, std::isfinite(y) ? nlohmann::ordered_json(y) : nullptr});
  }
  return {{"name", line.name}, {"points", std::move(points)}};
}

/// A figure whose data stand in a block that no browser runs.
std::string figure(const std::string& title, const nlohmann::ordered_json& json) {
  std::string data;
  for (char c : json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))
    c == '<' ? data += "\\u003c" : data += c;
  return fmt::format(
      "<figure><figcaption>{}</figcaption><script type=\"application/json\">{}</script></figure>\n",
      markup_text(title), data);
}

std::string figure(const Chart& chart) {
  nlohmann::ordered_json json{{"title", chart.title},
                              {"x", chart.x},
                              {"y", chart.y},
                              {"bytes", chart.bytes},
                              {"lines", nlohmann::ordered_json::array()}};
  for (const Line& line : chart.lines)
    if (!line.points.empty()) json["lines"].push_back(line_json(line));
  return json["lines"].empty() ? "" : figure(chart.title, json);
}

using Rows = std::vector<std::vector<std::string>>;

// True for a column of numbers below its head.
bool has_figures(const Rows& rows, std::size_t column) {
  bool any = false;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    if (column >= rows[r].size() || rows[r][column].empty()) continue;
    any = std::string_view("0123456789+-").find(rows[r][column][0]) != std::string_view::npos;
    if (!any) break;
  }
  return any;
}

std::string table(const Rows& rows) {
  if (rows.size() < 2) return "";
  std::vector<bool> figures;
  for (std::size_t c = 0; c < std::ranges::max(rows, {}, &Rows::value_type::size).size(); ++c)
    figures.push_back(has_figures(rows, c));
  std::string out = "<div class=\"scroller\" tabindex=\"0\"><table>\n<thead>";
  for (std::size_t r = 0; r < rows.size(); ++r) {
    out += "<tr>";
    for (std::size_t c = 0; c < rows[r].size(); ++c)
      out += fmt::format("<{0}{1}>{2}</{3}>", r == 0 ? "th scope=\"col\"" : "td",
                         figures[c] ? " class=\"figure\"" : "", markup_text(rows[r][c]),
                         r == 0 ? "th" : "td");
    out += r == 0 ? "</tr></thead>\n<tbody>" : "</tr>\n";
  }
  return out + "</tbody></table></div>\n";
}

std::string text_of(const std::vector<std::string>& lines) {
  std::string out;
  for (const std::string& line : lines) out += "<p>" + markup_text(line) + "</p>\n";
  return out;
}

}  // namespace

std::string html(const Report& report, const Report* base, const Changes* changes,
                 const Nights* nights) {
  if (is_of_tests(report)) return tests_page(report, base, changes);
  return filled(markup_text("tidemark: " + headline(report)),
                page_overview(report, base, changes, nights), packed_page_data(report, base));
}

std::string section_html(const Section& section) {
  std::string body = "<section>\n";
  if (!section.title.empty()) body += "<h2>" + markup_text(section.title) + "</h2>\n";
  body += text_of(section.text);
  for (const Chart& chart : section.charts) body += figure(chart);
  if (!section.memory.empty())
    body += fmt::format("<div id=\"memory\"><script type=\"text/plain\">{}</script></div>\n",
                        section.memory);
  for (const Picture& picture : section.pictures)
    body += figure(picture.title, nlohmann::ordered_json::parse(picture.json));
  return body + table(section.rows) + "</section>\n";
}

std::string html(const Document& document) {
  std::string body = fmt::format("<header class=\"top\"><h1 class=\"{}\">{}</h1></header>\n",
                                 name_of(document.status), markup_text(document.headline));
  for (const Section& section : document.sections) body += section_html(section);
  return filled(markup_text(fmt::format("tidemark {}: {}", document.command, document.headline)),
                body, "");
}

}  // namespace tidemark
