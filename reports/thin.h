// Long timelines reduced to few samples, for a page that must stay small. A chart of the samples
// shows the same peaks.
#pragma once

#include <cstddef>
#include <functional>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

inline constexpr std::size_t kLinePoints = 4000;  // of a line: more than a chart has pixels

using Height = std::function<double(std::size_t)>;
/// Places among `count` items in ascending order, at most `most` (but at least two and two a
/// height): the first, the last and, of every stretch, the lowest and the highest of each height.
std::vector<std::size_t> extremes(std::size_t count, std::size_t most,
                                  const std::vector<Height>& heights);

/// At most `most` samples (but at least eight) in their order, among them the first, the last and,
/// of every stretch of the timeline, the lowest and the highest of each statistic. So no peak is
/// lost, whatever `most` is. What only repeats the sample before it goes first.
std::vector<Sample> thin(const std::vector<Sample>& samples, std::size_t most);

}  // namespace tidemark
