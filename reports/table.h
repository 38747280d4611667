// Rows of texts as tables of a terminal and of Markdown; the first row is the header. Of a cell
// with a tooltip (figure_cell in html.h) they have what it shows. On a page: table_html.
#pragma once

#include <cstddef>
#include <set>
#include <string>
#include <vector>

namespace tidemark {

/// Columns below each other, two spaces between them, each line after `indent`.
std::string table_text(const std::vector<std::vector<std::string>>& rows,
                       const std::string& indent = "");

/// With the columns of `right`, from 0, set to the right.
std::string markdown_table(const std::vector<std::vector<std::string>>& rows,
                           const std::set<std::size_t>& right = {});

}  // namespace tidemark
