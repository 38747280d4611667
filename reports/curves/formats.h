// The readers behind read_curves(), one a family of formats.
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "reports/curves/curve.h"

namespace tidemark {

/// `commas`: cells parted by ',', ';' or tabs, as the first line has them; else by white space.
std::vector<Curve> read_table(std::string_view text, const std::string& where, bool commas);

/// One JSON object a line, each with a step.
std::vector<Curve> read_json_lines(std::string_view text, const std::string& where);
/// One JSON value: Megatron's golden values, a list of objects with a step each (also as
/// "log_history"), a list of [step, loss], {"0": loss}. Sets `format` to what it was.
std::vector<Curve> read_json_value(std::string_view text, const std::string& where,
                                   std::string& format);

/// Python and JavaScript write NaN, Infinity and -Infinity, which JSON does not have: in quotes
/// they are JSON. Text within strings stays as it is.
std::string with_quoted_numbers(std::string_view text);

/// Every line of `text` in its order, with its place ("line 3").
void each_line(std::string_view text,
               const std::function<void(std::string_view line, const std::string& place)>& use);

}  // namespace tidemark
