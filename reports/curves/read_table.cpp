// "step loss" lines and CSV: rows of cells, with or without a header.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "harness/record/number.h"
#include "reports/curves/formats.h"

namespace tidemark {
namespace {

using Row = std::vector<std::string>;

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
  for (std::string& cell : out) cell = std::string(trimmed(cell));
  return out;
}

char separator_of(std::string_view line) {
  for (char c : {',', ';', '\t'})
    if (line.find(c) != std::string_view::npos) return c;
  return ' ';
}

/// The names of the columns of a table with the row `first` at its top; empty where that row holds
/// three numbers or more.
Row header_of(const Row& first) {
  if (!parse_number(first.front())) return first;
  if (first.size() == 1) return {"loss"};
  return first.size() == 2 ? Row{"step", "loss"} : Row{};
}

}  // namespace

void read_table(std::string_view text, Points& points, bool commas) {
  Row header;
  char separator = ' ';
  bool numbered = false;
  std::int64_t number = 0;
  each_line(text, [&](std::string_view line, const std::string& place) {
    const std::string_view content = trimmed(line);
    if (content.empty() || content.front() == '#') return;
    const bool first = header.empty();
    if (first && commas) separator = separator_of(content);
    const auto row = separator == ' ' ? std::optional(words_of(content)) : cells(line, separator);
    if (!first && unfinished(text, line) && (!row || row->size() != header.size()))
      return points.note("cut", place + " is cut short and left out");
    if (!row) points.fail(place, "a quote is not closed");
    if (first) {
      header = header_of(*row);
      if (header.empty())
        points.fail(place, fmt::format("has {} columns and no header says which is which: 'step "
                                       "loss', or a header with 'step'",
                                       row->size()));
      numbered = header.size() == 1 && !names_step(header[0]) &&
                 (header != *row || lower(header[0]).find("loss") != std::string::npos);
      if (numbered) points.note("steps", "has no steps: its lines are numbered");
      if (!numbered && std::ranges::none_of(header, names_step))
        points.fail(place, "no column is named step, iteration, global_step or epoch");
      if (header.size() == 1 && !numbered)
        points.fail(place, "there is no column beside the steps");
      if (header == *row) return;
    }
    if (row->size() != header.size())
      points.fail(place, fmt::format("has {} columns where the lines before have {}", row->size(),
                                     header.size()));
    Record record;
    for (std::size_t i = 0; i < row->size(); ++i) record.emplace_back(header[i], (*row)[i]);
    if (numbered) record.emplace_back("step", std::to_string(++number));
    points.add(record, place, /*numbers_only=*/true);
  });
}

}  // namespace tidemark
