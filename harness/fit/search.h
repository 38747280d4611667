// Search for the largest value of a range that fits, with as few runs as possible.
#pragma once

#include <cstdint>
#include <map>
#include <vector>

namespace tidemark {

/// `undecided`: the run says nothing of the GPU (it was killed, or processes share one), and no
/// other run at this value would.
enum class Fits { yes, no, refused, undecided, unknown };

/// Result of the runs at one value of the range.
struct Seen {
  Fits fits = Fits::unknown;
  double peak = -1;      // bytes allocated with room to spare, which fit nothing smaller, or of all
                         // processes that share a GPU; -1: no run
  bool at_edge = false;  // unknown until a run at the GPU's own size
};
/// By the value's place in the range.
using Known = std::map<std::int64_t, Seen>;

/// A run that is wanted.
struct Try {
  std::int64_t place = 0;
  bool at_size = false;  // of the GPU; else with room to spare
  bool operator==(const Try&) const = default;
};

/// The runs to make next, at most two; none: the search has ended. It takes the bytes allocated to
/// grow with the place, and looks for the first place with more than the capacity. Below that place
/// the runs at the GPU's size decide, from the largest place down to the first that fits: what
/// fragmentation costs does not grow with the place. Of more than kWiden such places not all run.
/// Where the bytes allocated do not grow, it widens: every place above the largest that fits is
/// tried, kWiden of them at most. `guess` is the largest place of another GPU (-1: none), with
/// which the search begins in place of both ends.
std::vector<Try> next_tries(const Known& known, std::int64_t count, double capacity,
                            std::int64_t guess = -1);
inline constexpr std::int64_t kWiden = 64;

/// True if no peak is lower than one at a smaller place.
bool grows(const Known& known);

/// The largest place that fits; -1: none.
std::int64_t largest(const Known& known);

/// The first place with more bytes allocated than the capacity; `count`: none is known.
std::int64_t first_above(const Known& known, std::int64_t count, double capacity);

}  // namespace tidemark
