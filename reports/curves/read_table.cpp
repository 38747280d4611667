// "step loss" lines and CSV: rows of cells, with or without a header.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "harness/record/number.h"
#include "reports/curves/formats.h"

namespace tidemark {
namespace {

using Row = std::vector<std::string>;

std::string trimmed(std::string_view text) {
  const auto from = text.find_first_not_of(" \t\r");
  if (from == std::string_view::npos) return "";
  return std::string(text.substr(from, text.find_last_not_of(" \t\r") - from + 1));
}

Row words(std::string_view line) {
  Row out;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t\r", at)) != std::string_view::npos;) {
    const auto end = std::min(line.find_first_of(" \t\r", at), line.size());
    out.emplace_back(line.substr(at, end - at));
    at = end;
  }
  return out;
}

/// One line's cells; a quoted one may hold the separator and doubled quotes.
std::optional<Row> cells(std::string_view line, char separator) {
  Row out(1);
  bool quoted = false;
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (quoted && line[i] == '"' && i + 1 < line.size() && line[i + 1] == '"') {
      out.back() += line[i++];
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (line[i] == separator && !quoted) {
      out.emplace_back();
    } else {
      out.back() += line[i];
    }
  }
  if (quoted) return std::nullopt;
  for (std::string& cell : out) cell = trimmed(cell);
  return out;
}

char separator_of(std::string_view line) {
  for (char c : {',', ';', '\t'})
    if (line.find(c) != std::string_view::npos) return c;
  return ' ';
}

/// The names of the columns, of which `first` is the first row; empty where that is a row of
/// numbers and no two of them.
Row header_of(const Row& first) {
  if (!parse_number(first.front())) return first;
  return first.size() == 2 ? Row{"step", "loss"} : Row{};
}

}  // namespace

void read_table(std::string_view text, Points& points, bool commas) {
  Row header;
  char separator = ' ';
  each_line(text, [&](std::string_view line, const std::string& place) {
    const std::string content = trimmed(line);
    if (content.empty() || content.front() == '#') return;
    const bool first = header.empty();
    if (first && commas) separator = separator_of(content);
    const auto row = separator == ' ' ? std::optional(words(content)) : cells(line, separator);
    if (!row) points.fail(place, "a quote is not closed");
    if (first) {
      header = header_of(*row);
      if (header.empty())
        points.fail(place, fmt::format("has {} columns and no header says which is which: 'step "
                                       "loss', or a header with 'step'",
                                       row->size()));
      if (std::ranges::none_of(header, names_step))
        points.fail(place, "no column is named step, iteration or global_step");
      if (header.size() == 1) points.fail(place, "there is no column beside the steps");
      if (header == *row) return;
    }
    if (row->size() != header.size())
      points.fail(place, fmt::format("has {} columns where the lines before have {}", row->size(),
                                     header.size()));
    Record record;
    for (std::size_t i = 0; i < row->size(); ++i) record.emplace_back(header[i], (*row)[i]);
    points.add(record, place, /*numbers_only=*/true);
  });
}

}  // namespace tidemark
