// A long timeline as few samples, for a page that must stay small: a picture of it shows the same
// peaks.
#pragma once

#include <cstddef>
#include <vector>

#include "harness/record.h"

namespace tidemark {

/// At most `most` samples (but at least eight) in their order, among them the first, the last and,
/// of every stretch of the timeline, the lowest and the highest of each statistic. So no peak is
/// lost, whatever `most` is. What only repeats the sample before it goes first.
std::vector<Sample> thin(const std::vector<Sample>& samples, std::size_t most);

}  // namespace tidemark
