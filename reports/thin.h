// A long timeline as few samples, for a page that must stay small: a picture of it shows the same
// peaks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// At most `most` samples (but at least eight) in their order, among them the first, the last and,
/// of every stretch of the timeline, the lowest and the highest of each statistic. So no peak is
/// lost, whatever `most` is. What only repeats the sample before it goes first.
std::vector<Sample> thin(const std::vector<Sample>& samples, std::size_t most);

/// Which of the spans to draw where at most `most` can be: `wanted` ones, then the longest, in
/// their order. A span's length is what can be seen of it.
std::vector<std::size_t> thin(const Spans& spans, std::size_t most,
                              const std::vector<std::int64_t>& wanted);

/// The segments of at most `most` blocks in all, at least one: the largest, in their order.
std::vector<const Segment*> thin(const MemoryMap& map, std::size_t most);

}  // namespace tidemark
