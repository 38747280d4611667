// Lists of a snapshot's texts.
#pragma once

#include <fmt/format.h>

#include <cstddef>
#include <ranges>
#include <string>
#include <string_view>

#include "harness/record/units.h"

namespace tidemark {

/// A line for each of the first `top` items, and how many more there are.
std::string first_lines(const auto& items, std::size_t top, std::string_view indent, auto line) {
  std::string out;
  for (const auto& item : items | std::views::take(top))
    out += fmt::format("{}{}\n", indent, line(item));
  if (items.size() > top) out += fmt::format("{}and {} more\n", indent, items.size() - top);
  return out;
}

}  // namespace tidemark
