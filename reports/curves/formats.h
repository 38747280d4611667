// Readers of the formats of loss curves: each adds the points of a file's text.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/curves/points.h"

namespace tidemark {

/// A format by its name: `fits` recognises a text by content, its `first` line that is neither
/// empty nor a comment given; `read` adds its points.
struct CurveFormat {
  const char* name;
  std::function<bool(std::string_view text, std::string_view first)> fits;
  std::function<void(std::string_view text, Points& points)> read;
};
/// All formats. A text is read by the first that fits it.
const std::vector<CurveFormat>& curve_format_table();

/// Rows of cells, parted by white space; with `commas` by ',', ';' or tabs, as the first line has
/// them. The first row may name the columns; else they are step and loss.
void read_table(std::string_view text, Points& points, bool commas);
/// One JSON object a line, each with a step. A last line that is cut short is left out, and noted.
void read_json_lines(std::string_view text, Points& points);
/// One JSON value: an object with a step, a list of them (also as "log_history", of which those
/// with a loss count), or Megatron's golden values.
void read_json_value(std::string_view text, Points& points);
/// A run's report.json: a curve for each variant of a trial.
void read_report(std::string_view text, Points& points);
/// The events of TensorBoard. A last event that is cut short is left out, and noted.
void read_events(std::string_view text, Points& points);
bool holds_events(std::string_view text);

/// Python and JavaScript write NaN, Infinity and -Infinity, which JSON does not have: in quotes
/// they are JSON. Text within strings stays as it is.
std::string with_quoted_numbers(std::string_view text);

/// `text` without the `characters` at its begin and end.
std::string_view trimmed(std::string_view text, std::string_view characters = " \t\r");
/// The words of a line, parted by white space.
std::vector<std::string> words_of(std::string_view line);

/// Every line of `text` in its order, with its place ("line 3").
void each_line(std::string_view text,
               const std::function<void(std::string_view line, const std::string& place)>& use);
/// True for the last line of `text` where no line break follows: the file may be cut there.
bool unfinished(std::string_view text, std::string_view line);

}  // namespace tidemark
