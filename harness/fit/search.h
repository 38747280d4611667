// Search for the largest value of a range that fits, with as few runs as possible.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace tidemark {

enum class Fits { yes, no, refused, unknown };

/// What a run at one value of the range has shown.
struct Seen {
  Fits fits = Fits::unknown;
  double peak = 0;       // bytes reserved
  bool at_edge = false;  // unknown until a run at the GPU's own size
};
/// By the value's place in the range.
using Known = std::map<std::int64_t, Seen>;

/// The places to try next, at most two at a time; none: the search has ended. It takes the peaks to
/// grow with the place. If those that are known do not, it widens: every place above the largest
/// that fits is tried, kWiden of them at most.
std::vector<std::int64_t> next_places(const Known& known, std::int64_t count, double capacity);
inline constexpr std::int64_t kWiden = 64;

/// True if no peak is lower than one at a smaller place, and nothing fits above what does not.
bool grows(const Known& known);

/// The largest place that fits; -1: none.
std::int64_t largest(const Known& known);

}  // namespace tidemark
