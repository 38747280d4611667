// Search for the versions at which a peak changes, with few runs.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace tidemark {

/// How much two peaks may differ and count as the same.
struct Grew {
  double share = 0.01;     // of the smaller one
  std::int64_t bytes = 0;  // counts where there is no share
  std::string text = "1%";
};
/// "1%", "20MiB" or "0". Throws UsageError.
Grew parse_grew(const std::string& text);

/// A version, by its place in the order.
struct Point {
  enum class Tried { no, ran, refused } tried = Tried::no;
  std::int64_t reserved = 0, allocated = 0;  // bytes at the peaks
  std::string why;                           // it was refused
};

bool differ(const Point& one, const Point& other, const Grew& grew);

/// The places to try next; none: the search has ended. First both ends; then, between two that ran
/// with none between them that did and whose peaks differ, the middle of what was not tried. Where
/// an end is refused, the first and the last version that run are looked for in halves. Peaks are
/// not monotonic: between two that are alike nothing is tried, unless `all`.
std::vector<std::size_t> next_points(const std::vector<Point>& points, const Grew& grew, bool all);

/// So many refusals for one reason between two versions, and the others there are not tried.
inline constexpr std::size_t kAlike = 3;

/// Pairs of places that ran with none between them that did, whose peaks differ.
std::vector<std::pair<std::size_t, std::size_t>> changed_between(const std::vector<Point>& points,
                                                                 const Grew& grew);

}  // namespace tidemark
