// HTML pages, each one file that needs no network: the page of a report, and documents of text,
// tables and lines. All text stands in the source, readable without JavaScript; the modules in
// page/ draw the charts and the pages of a report's scenarios (their data is page_data.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

struct Nights;  // nights.h

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

/// A figure that a module of page/ draws from its own data: JSON with a "kind".
struct Picture {
  std::string title, json;
};

struct Section {
  std::string title;
  std::vector<std::string> text;  // a line each
  std::vector<Chart> charts;
  /// The first row is the header. A cell that starts with a digit, '+' or '-' is set as a figure.
  std::vector<std::vector<std::string>> rows;
  /// Data of page/memory.js (program/picture_data.h), packed; empty: none.
  std::string memory = {};
  std::vector<Picture> pictures = {};
};

/// Changes against another run (compare/render.h), for the page of a report.
struct Changes {
  std::string result;   // "2 regressions"
  std::string summary;  // "12 comparisons (...): 2 regressions, ..."
  Status status = Status::pass;
  std::vector<Section> sections;  // the cause first
};
/// With the figures of another run of the same trials beside it where `base` is given, and with
/// those of the nights before.
std::string html(const Report& report, const Report* base = nullptr,
                 const Changes* changes = nullptr, const Nights* nights = nullptr);

/// A section of a page; its data are drawn by page/figures.js.
std::string section_html(const Section& section);

struct Document {
  std::string command, headline;
  Status status = Status::pass;
  std::vector<Section> sections;
};
std::string html(const Document& document);

}  // namespace tidemark
