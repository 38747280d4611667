// A small HTML document with charts drawn beforehand: one file, no script, no network.
#pragma once

#include <string>
#include <utility>
#include <vector>

namespace tidemark {

/// Text as HTML shows it; control characters become spaces.
std::string html_text(const std::string& text);

/// `body` is HTML.
std::string html_document(const std::string& title, const std::string& body);

/// A table: the first row its header. Cells are text; a cell that starts with a digit, '+' or '-'
/// is set as a figure.
std::string html_table(const std::vector<std::vector<std::string>>& rows);

struct Line {
  std::string name;
  std::vector<std::pair<double, double>>
      points;  // ascending; one that is not finite parts the line
};

struct Chart {
  std::string title, x, y;
  bool bytes = false;  // the figures on y are bytes
  std::vector<Line> lines;
};
/// An inline SVG. Of more points than it has columns, the highest and the lowest of each are drawn.
std::string svg(const Chart& chart);

}  // namespace tidemark
