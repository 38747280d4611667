// "step loss" lines and CSV: rows of cells, with or without a header.
#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "harness/record/number.h"
#include "reports/curves/formats.h"
#include "reports/curves/gather.h"

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

struct Columns {
  std::size_t step = 0;
  std::vector<std::pair<std::size_t, std::string>> curves;
};

Columns columns_of(const Row& header, const Gather& gather, const std::string& place) {
  Columns out;
  const auto step = std::ranges::find_if(header, Gather::names_step);
  if (step == header.end()) gather.fail(place, "no column is named step, iteration or global_step");
  out.step = static_cast<std::size_t>(step - header.begin());
  for (std::size_t i = 0; i < header.size(); ++i)
    if (i != out.step && !Gather::names_time(header[i])) out.curves.emplace_back(i, header[i]);
  if (out.curves.empty()) gather.fail(place, "there is no column beside the steps");
  return out;
}

void add_row(const Row& row, const Columns& columns, Gather& gather, const std::string& place) {
  const auto step = parse_step(row[columns.step]);
  if (!step) gather.fail(place, fmt::format("'{}' is not a step", row[columns.step]));
  for (const auto& [at, name] : columns.curves) {
    if (row[at].empty()) continue;  // not logged at this step
    const auto value = parse_number(row[at]);
    if (!value) gather.fail(place, fmt::format("'{}' is not a number", row[at]));
    gather.add(name, *step, *value);
  }
}

}  // namespace

void each_line(std::string_view text,
               const std::function<void(std::string_view line, const std::string& place)>& use) {
  int number = 0;
  for (std::size_t at = 0; at < text.size();) {
    const auto end = std::min(text.find('\n', at), text.size());
    use(text.substr(at, end - at), fmt::format("line {}", ++number));
    at = end + 1;
  }
}

std::vector<Curve> read_table(std::string_view text, const std::string& where, bool commas) {
  Gather gather(where);
  std::optional<Columns> columns;
  std::size_t width = 0;
  char separator = ' ';
  each_line(text, [&](std::string_view line, const std::string& place) {
    const std::string content = trimmed(line);
    if (content.empty() || content.front() == '#') return;
    if (width == 0) separator = commas ? separator_of(content) : ' ';
    const auto row = separator == ' ' ? std::optional(words(content)) : cells(line, separator);
    if (!row) gather.fail(place, "a quote is not closed");
    if (width != 0 && row->size() != width)
      gather.fail(place,
                  fmt::format("has {} columns where the lines before have {}", row->size(), width));
    width = row->size();
    if (!columns && !parse_number(row->front())) {
      columns = columns_of(*row, gather, place);
      return;
    }
    if (!columns) {
      if (width != 2)
        gather.fail(place, fmt::format("has {} columns and no header says which is which: "
                                       "'step loss', or a header with 'step'",
                                       width));
      columns = Columns{0, {{1, "loss"}}};
    }
    add_row(*row, *columns, gather, place);
  });
  return gather.take();
}

}  // namespace tidemark
