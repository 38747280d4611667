// The table of formats.
#include "reports/curves/formats.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "reports/curves/logs.h"

namespace tidemark {
namespace {

bool opens_json(std::string_view first) { return first.starts_with('{') || first.starts_with('['); }

/// A line that is an object of its own, with more after it, is the first of many.
bool fits_lines(std::string_view text, std::string_view first) {
  return first.starts_with('{') && text.size() > text.find(first) + first.size() + 1 &&
         nlohmann::json::accept(with_quoted_numbers(first));
}

/// A tab parts words like any white space, but in a header, whose names may hold spaces.
bool fits_csv(std::string_view, std::string_view first) {
  const bool header =
      !first.empty() && std::string_view("+-.0123456789").find(first[0]) == std::string_view::npos;
  return first.find_first_of(header ? ",;\t" : ",;") != std::string_view::npos;
}

}  // namespace

const std::vector<CurveFormat>& curve_format_table() {
  static const std::vector<CurveFormat> all{
      {"tensorboard", [](auto text, auto) { return holds_events(text); }, read_events},
      {"report",
       [](auto text, auto) {
         return text.substr(0, 4096).find("\"tidemark/report\"") != std::string_view::npos;
       },
       read_report},
      {"log", fits_log, read_log},
      {"jsonl", fits_lines, read_json_lines},
      {"json", [](auto, auto first) { return opens_json(first); }, read_json_value},
      {"csv", fits_csv, [](auto text, Points& points) { read_table(text, points, true); }},
      {"text", [](auto, auto) { return true; },
       [](auto text, Points& points) { read_table(text, points, false); }}};
  return all;
}

std::string_view trimmed(std::string_view text, std::string_view characters) {
  const auto from = text.find_first_not_of(characters);
  if (from == std::string_view::npos) return {};
  return text.substr(from, text.find_last_not_of(characters) - from + 1);
}

std::vector<std::string> words_of(std::string_view line) {
  std::vector<std::string> out;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos;) {
    const auto end = std::min(line.find_first_of(" \t\r", at), line.size());
    out.emplace_back(line.substr(at, end - at));
    at = end;
  }
  return out;
}

bool unfinished(std::string_view text, std::string_view line) {
  return line.data() + line.size() == text.data() + text.size();
}

void each_line(std::string_view text,
               const std::function<void(std::string_view line, const std::string& place)>& use) {
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    use(text.substr(at, end - at), "line " + std::to_string(++number));
    at = end + 1;
  }
}

}  // namespace tidemark
