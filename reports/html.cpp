#include "reports/html.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <stdexcept>
#include <string_view>
#include <utility>

#include "harness/record/units.h"
#include "reports/headline.h"
#include "reports/markup.h"
#include "reports/page_data.h"
#include "reports/renderings.h"
#include "reports/still.h"
#include "reports/tests_page.h"
#include "reports/thin.h"

namespace tidemark {

extern const std::string_view kPage;  // from page/, by embed.py

namespace {

/// page/index.html with what stands in its holes; `body` adds to `out`.
void put_page(GrowingText& out, const std::string& title, const std::function<void()>& body,
              const std::string& data) {
  std::string_view rest = kPage;
  const auto put_until = [&](std::string_view hole) {
    const auto at = rest.find(hole);
    if (at == std::string_view::npos)
      throw std::logic_error(fmt::format("page/index.html has no {}", hole));
    out += rest.substr(0, at);
    rest.remove_prefix(at + hole.size());
  };
  put_until("@TITLE@"), out += title;
  put_until("@BODY@"), body();
  put_until("@DATA@"), out += data;
  out += rest;
  out.finish();
}

nlohmann::ordered_json line_json(const Line& line) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array(), notes = points;
  const auto level = [&](std::size_t i) {
    return std::isfinite(line.points[i].second) ? line.points[i].second : 0;
  };
  for (std::size_t i : extremes(line.points.size(), kLinePoints, {level})) {
    const auto& [x, y] = line.points[i];
    if (!std::isfinite(x)) continue;
    points.push_back({x, std::isfinite(y) ? nlohmann::ordered_json(y) : nullptr});
    if (i < line.notes.size()) notes.push_back(line.notes[i]);
  }
  nlohmann::ordered_json out{{"name", line.name}, {"points", std::move(points)}};
  if (!notes.empty()) out["notes"] = std::move(notes);
  if (line.bound) out["bound"] = true;
  return out;
}

/// JSON within an element of the page.
std::string data_text(const nlohmann::ordered_json& json) {
  std::string data;
  for (char c : json.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace))
    c == '<' ? data += "\\u003c" : data += c;
  return data;
}

/// A figure with its data.
std::string figure(const std::string& title, const nlohmann::ordered_json& json,
                   const std::string& still = "") {
  return fmt::format(
      "<figure><figcaption>{}</figcaption>{}<script "
      "type=\"application/json\">{}</script></figure>\n",
      markup_text(title), still.empty() ? "" : "<div class=\"still\">" + still + "</div>",
      data_text(json));
}

std::string figure(const Chart& chart) {
  nlohmann::ordered_json json{{"title", chart.title}, {"x", chart.x},
                              {"y", chart.y},         {"bytes", chart.bytes},
                              {"dates", chart.dates}, {"lines", nlohmann::ordered_json::array()}};
  for (const Line& line : chart.lines)
    if (!line.points.empty()) json["lines"].push_back(line_json(line));
  return json["lines"].empty() ? "" : figure(chart.title, json, still_chart(chart));
}

using Rows = std::vector<std::vector<std::string>>;

/// True where each cell begins with a number: not with a date and time or the name of a run.
bool has_figures(const Rows& rows, std::size_t column) {
  bool any = false;
  for (std::size_t r = 1; r < rows.size(); ++r) {
    if (column >= rows[r].size() || rows[r][column].empty()) continue;
    const std::string_view text = rows[r][column], word = text.substr(0, text.find_first_of(" \t"));
    const std::string_view number = word.substr(0, std::min(word.find("e-"), word.find("e+")));
    any = !number.empty() && std::string_view("0123456789+-").find(number[0]) != text.npos &&
          number.find_first_not_of("0123456789+-.,%x") == text.npos;
    if (!any) break;
  }
  return any;
}

/// Links to files beside the page; many of them are folded.
std::string files_html(const std::vector<std::string>& files) {
  constexpr std::size_t kSeen = 12;
  if (files.empty()) return "";
  std::string list;
  for (const std::string& file : files) {
    list += fmt::format("<li><a href=\"{}\">{}</a></li>\n", percent_encoded(file, "/._-~"),
                        markup_text(file));
  }
  list = "<ul class=\"beside\">\n" + list + "</ul>\n";
  return files.size() <= kSeen ? list
                               : fmt::format("<details><summary>{}</summary>{}</details>\n",
                                             plural(std::ssize(files), "file"), list);
}

void put_lines(GrowingText& out, std::span<const std::string> lines) {
  for (const std::string& line : lines) out += "<p>" + markup_text(line) + "</p>\n";
}

constexpr std::size_t kSeen = 3;  // lines of a folded list

/// A list of which the first lines are seen; the others are folded, those of one trial together.
void put_folded(GrowingText& out, const std::vector<std::string>& lines) {
  std::vector<std::pair<std::string, std::vector<std::string>>> groups;
  for (const std::string& line : lines) {
    const std::string trial = line.substr(0, line.find_first_of(" :"));
    auto group =
        std::ranges::find(groups, trial, &std::pair<std::string, std::vector<std::string>>::first);
    if (group == groups.end()) group = groups.insert(group, {trial, {}});
    group->second.push_back(line);
  }
  out += fmt::format("<details class=\"folded\"><summary>All {}</summary>\n", lines.size());
  for (const auto& [trial, of] : groups) {
    const bool alone = groups.size() == 1;
    if (!alone)
      out += fmt::format("<details><summary>{} ({})</summary>\n", markup_text(trial), of.size());
    put_lines(out, of);
    if (!alone) out += "</details>\n";
  }
  out += "</details>\n";
}

/// The text after a tab is a tooltip.
std::string cell(const std::string& text) {
  const std::size_t tab = text.find('\t');
  if (tab == text.npos) return markup_text(text);
  return fmt::format("<span title=\"{}\">{}</span>", markup_text(text.substr(tab + 1)),
                     markup_text(text.substr(0, tab)));
}

void put_table(GrowingText& out, const Rows& rows) {
  constexpr std::size_t kFewColumns = 3, kListedRows = 120;
  if (rows.size() < 2) return;
  std::vector<bool> figures;
  for (std::size_t c = 0; c < std::ranges::max(rows, {}, &Rows::value_type::size).size(); ++c)
    figures.push_back(has_figures(rows, c));
  // In a narrow window such rows are lists of named values, and larger tables can be scrolled.
  const bool named = figures.size() > kFewColumns && rows.size() <= kListedRows;
  out += fmt::format("<div class=\"scroller\" tabindex=\"0\"><table{}>\n<thead>",
                     named ? " class=\"cards\"" : "");
  for (std::size_t r = 0; r < rows.size(); ++r) {
    out += "<tr>";
    for (std::size_t c = 0; c < rows[r].size(); ++c) {
      const std::string head = named && r > 0 && c > 0 && c < rows[0].size()
                                   ? fmt::format(" data-head=\"{}\"", markup_text(rows[0][c]))
                                   : "";
      out += fmt::format("<{0}{1}{4}>{2}</{3}>", r == 0 ? "th scope=\"col\"" : "td",
                         figures[c] ? " class=\"figure\"" : "", cell(rows[r][c]),
                         r == 0 ? "th" : "td", head);
    }
    out += r == 0 ? "</tr></thead>\n<tbody>" : "</tr>\n";
  }
  out += "</tbody></table></div>\n";
}

void put_section(GrowingText& out, const Section& section) {
  out += section.id.empty() ? "<section>\n" : fmt::format("<section id=\"{}\">\n", section.id);
  if (!section.title.empty()) out += "<h2>" + breakable(section.title) + "</h2>\n";
  const bool many = section.folded && section.text.size() > kSeen + 2;
  put_lines(out, std::span(section.text).first(many ? kSeen : section.text.size()));
  if (many) put_folded(out, section.text);
  out += section.markup;
  for (const Chart& chart : section.charts) out += figure(chart);
  if (!section.memory.empty())
    out += fmt::format(
        "<div id=\"memory\"><div class=\"still\">{}</div><script "
        "type=\"text/plain\">{}</script></div>\n",
        section.still, section.memory);
  for (const Picture& picture : section.pictures)
    out += picture.json.empty()
               ? fmt::format("<figure><figcaption>{}</figcaption>{}</figure>\n",
                             markup_text(picture.title), picture.markup)
               : figure(picture.title, nlohmann::ordered_json::parse(picture.json), picture.markup);
  const bool folded = !section.rows_fold.empty() && section.rows.size() > 1;
  if (folded)
    out += fmt::format("<details class=\"folded\"><summary>{}</summary>\n",
                       markup_text(section.rows_fold));
  put_table(out, section.rows);
  if (folded) out += "</details>\n";
  out += files_html(section.files);
  out += "</section>\n";
}

/// A text that a module of page/ reads, line by line.
void put_text_data(GrowingText& out, std::string_view text) {
  out += "<script type=\"application/json\">\"";
  while (!text.empty()) {
    const std::string_view line = text.substr(0, text.find('\n') + 1);
    const std::string_view part = line.empty() ? text : line;
    const std::string quoted = data_text(part);
    out += std::string_view(quoted).substr(1, quoted.size() - 2);
    text.remove_prefix(part.size());
  }
  out += "\"</script>";
}

void put_document(GrowingText& out, const Document& document) {
  out += fmt::format("<header class=\"top\"><h1 class=\"{}\">{}</h1>\n", name_of(document.status),
                     breakable(document.headline));
  for (std::size_t i = 0; i < document.facts.size(); ++i) {
    const std::string fact = markup_text(document.facts[i]);
    out += "<p class=\"facts\">" +
           (i + 1 < document.facts.size() ? fact : "<code>" + fact + "</code>") + "</p>\n";
  }
  if (!document.markdown.empty()) {
    out += "<div id=\"post\">";
    put_text_data(out, document.markdown);
    out += "</div>\n";
  }
  out += "</header>\n";
  for (const Section& section : document.sections) put_section(out, section);
}

/// What is put as one text.
template <class... Arguments>
std::string text_put(void (*put)(GrowingText&, Arguments...), Arguments... arguments) {
  return whole([&](const Put& to) {
    GrowingText out(to);
    put(out, arguments...);
    out.finish();
  });
}

}  // namespace

std::string figure_cell(Bytes bytes) {
  const std::string all = exact(bytes) + " bytes", sized = bytes_text(bytes);
  return sized == all ? all : sized + "\t" + all;
}

std::string table_html(const Rows& rows) { return text_put<const Rows&>(put_table, rows); }

std::string section_html(const Section& section) {
  return text_put<const Section&>(put_section, section);
}

TextMaker page_of(const Report& report, const Report* base, const Changes* changes,
                  const Nights* nights) {
  if (is_of_tests(report)) return tests_page(report, base, changes);
  return [&report, base, changes, nights](const Put& put) {
    GrowingText out(put);
    put_page(
        out, markup_text("tidemark: " + headline(report)),
        [&] { out += page_overview(report, base, changes, nights); },
        packed_page_data(report, base));
  };
}

TextMaker page_of(Document document) {
  return [of = std::make_shared<const Document>(std::move(document))](const Put& put) {
    GrowingText out(put);
    const std::string title = of->command.empty()
                                  ? of->headline + " - tidemark"
                                  : fmt::format("tidemark {}: {}", of->command, of->headline);
    put_page(
        out, markup_text(title), [&] { put_document(out, *of); }, "");
  };
}

}  // namespace tidemark
