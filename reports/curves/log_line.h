// A line of a log: the numbers that it names.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "reports/curves/points.h"

namespace tidemark {

/// What one line says. Names stand before their values, with ':', '=' or a blank between, and reach
/// back to a comma, a bar, a bracket, a lonely dash or another value: "lm loss: 1.08E+01 | norm 5",
/// "step=10/300, loss=7.9". A number with a unit, a percent sign or commas for thousands is no
/// value.
struct LogLine {
  Record fields;                     // without the step
  std::optional<std::int64_t> step;  // of a name of steps
  std::optional<std::int64_t> epoch;
  std::optional<std::int64_t> done, of;  // "10/300" without a name, as a progress bar has it
  bool loss = false;                     // a name with "loss" has a value
  bool dictionary = false;               // printed by Python, as Hugging Face's Trainer does
};

/// "10" and "300" of "10/300": digits, and what stands behind the slash. None without digits.
std::optional<std::pair<std::string_view, std::string_view>> part_of_whole(std::string_view word);

/// A value of a loss that is not a number is kept as it stands, where the line names a step.
LogLine log_line(std::string_view line);

}  // namespace tidemark
