// HTML pages, each one file that needs no network: the page of a report, and documents of text,
// tables and lines. All text stands in the source, readable without JavaScript; the modules in
// page/ draw the charts and the pages of a report's scenarios (their data is page_data.h).
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "harness/record/growing_text.h"
#include "harness/record/record.h"

namespace tidemark {

struct Nights;  // nights.h

struct Line {
  std::string name;
  std::vector<std::pair<double, double>>
      points;                           // ascending; a point that is not finite interrupts the line
  std::vector<std::string> notes = {};  // one for each point, or none at all
  bool bound = false;  // a limit for the other lines: dashed, and the others are not
};

struct Chart {
  std::string title, x, y;
  bool bytes = false;  // the figures on y are bytes
  std::vector<Line> lines;
  bool dates = false;  // the figures on x are seconds since 1970
};

/// A figure that a module of page/ draws from its own data, JSON with a "kind", with the markup
/// that stands in its place where no script runs; or its markup alone.
struct Picture {
  std::string title, json, markup = {};
};

struct Section {
  std::string title;
  std::vector<std::string> text;  // a line each
  std::vector<Chart> charts;
  /// The first row is the header. A column whose cells all begin with a number is set as figures.
  /// The text after a tab in a cell is its tooltip.
  std::vector<std::vector<std::string>> rows;
  /// Data of page/memory.js (program/picture_data.h), packed; empty: none.
  std::string memory = {};
  std::vector<Picture> pictures = {};
  bool folded = false;      // many lines of text: shows the first, and all in a fold
  std::string id = {};      // the target of links
  std::string markup = {};  // below the text
  std::string still = {};   // markup in place of `memory` where no script runs (still.h)
  std::vector<std::string> files = {};  // links to files beside the page, by their paths
  std::string rows_fold = {};  // the name of a fold that has the rows; empty: they are seen
};

/// Changes against another run (compare/render.h), for the page of a report.
struct Changes {
  std::string result;   // "2 regressions"
  std::string summary;  // "12 comparisons (...): 2 regressions, ..."
  Status status = Status::pass;
  std::vector<Section> sections;  // the cause, and what the new peaks have beyond the old ones
  std::vector<Section> lists;     // each change
};
/// With the figures of another run of the same trials beside it where `base` is given, and with
/// those of the nights before. All of them have to be there when the text is made.
TextMaker page_of(const Report& report, const Report* base = nullptr,
                  const Changes* changes = nullptr, const Nights* nights = nullptr);

/// A cell of a table: "6 MiB", with every byte as its tooltip.
std::string figure_cell(Bytes bytes);

/// A table as a page has it; the first row is the header. Empty with fewer than two rows.
std::string table_html(const std::vector<std::vector<std::string>>& rows);

/// A section of a page; its data are drawn by page/figures.js.
std::string section_html(const Section& section);

struct Document {
  std::string command, headline;  // the title has both; without a command the headline
  Status status = Status::pass;
  std::vector<Section> sections;
  std::vector<std::string> facts = {};  // quiet lines below the headline, the last one a command
  std::string markdown = {};            // copied by page/post.js; empty: nothing
};
TextMaker page_of(Document document);

/// A page as one text.
template <class... Of>
std::string html(const Of&... of) {
  return whole(page_of(of...));
}

}  // namespace tidemark
