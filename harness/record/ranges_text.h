// Ascending numbers as ranges.
#pragma once

#include <fmt/format.h>

#include <concepts>
#include <string>
#include <vector>

namespace tidemark {

/// "5, 7, 9-12" of ascending numbers, or the first `most` ranges "and 88 more" numbers.
template <std::integral Number>
std::string ranges_text(const std::vector<Number>& numbers, std::size_t most) {
  std::string out;
  std::size_t from = 0;
  for (std::size_t ranges = 0; from < numbers.size() && ranges < most; ++ranges) {
    std::size_t to = from;
    while (to + 1 < numbers.size() && numbers[to + 1] == numbers[to] + 1) ++to;
    out += fmt::format("{}{}", ranges == 0 ? "" : ", ", numbers[from]);
    if (to > from) out += fmt::format("-{}", numbers[to]);
    from = to + 1;
  }
  if (from < numbers.size()) out += fmt::format(" and {} more", numbers.size() - from);
  return out;
}

}  // namespace tidemark
