#include "reports/table.h"

#include <fmt/format.h>

#include <algorithm>

#include "reports/renderings.h"

namespace tidemark {
namespace {

std::string shown_of(const std::string& cell) { return cell.substr(0, cell.find('\t')); }

}  // namespace

std::string table_text(const std::vector<std::vector<std::string>>& rows,
                       const std::string& indent) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows)
    for (std::size_t i = 0; i < row.size(); ++i) {
      if (widths.size() <= i) widths.push_back(0);
      widths[i] = std::max(widths[i], shown_of(row[i]).size());
    }
  std::string out;
  for (const auto& row : rows) {
    std::string line = indent;
    for (std::size_t i = 0; i < row.size(); ++i)
      line += fmt::format("{:<{}}  ", shown_of(row[i]), widths[i]);
    out += line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
  }
  return out;
}

std::string markdown_table(const std::vector<std::vector<std::string>>& rows,
                           const std::set<std::size_t>& right) {
  std::string out;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    for (const std::string& cell : rows[i]) out += "| " + markdown_text(shown_of(cell)) + " ";
    out += "|\n";
    if (i > 0) continue;
    for (std::size_t k = 0; k < rows[i].size(); ++k) out += right.contains(k) ? "|---:" : "|---";
    out += "|\n";
  }
  return out;
}

}  // namespace tidemark
