// Long lines reduced to few points, for a page that must stay small. A chart of them shows the same
// peaks.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

namespace tidemark {

inline constexpr std::size_t kLinePoints = 4000;  // of a line: more than a chart has pixels

using Height = std::function<double(std::size_t)>;
/// Places among `count` items in ascending order, at most `most` (but at least two and two a
/// height): the first, the last and, of every stretch, the lowest and the highest of each height.
std::vector<std::size_t> extremes(std::size_t count, std::size_t most,
                                  const std::vector<Height>& heights);

}  // namespace tidemark
