#include "harness/bisect/search.h"

#include <algorithm>
#include <charconv>
#include <cstdlib>
#include <map>
#include <optional>

#include "harness/errors.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

using Tried = Point::Tried;

/// The middle of the untried places in [begin, end) that are in a row from `begin` on.
std::size_t middle(std::size_t begin, std::size_t end) { return begin + (end - begin) / 2; }

/// The longest row of untried places between two places, both left out; empty: there is none.
std::pair<std::size_t, std::size_t> longest(const std::vector<Point>& points, std::size_t from,
                                            std::size_t to) {
  std::pair<std::size_t, std::size_t> best{to, to};
  for (std::size_t begin = from; begin < to;) {
    if (points[begin].tried != Tried::no) {
      ++begin;
      continue;
    }
    std::size_t end = begin;
    while (end < to && points[end].tried == Tried::no) ++end;
    if (end - begin > best.second - best.first) best = {begin, end};
    begin = end;
  }
  return best;
}

/// True if the refusals in [from, to) say that the others there would be refused as well.
bool refused_alike(const std::vector<Point>& points, std::size_t from, std::size_t to) {
  std::map<std::string, std::size_t> reasons;
  for (std::size_t i = from; i < to; ++i)
    if (points[i].tried == Tried::refused && ++reasons[points[i].why] >= kAlike) return true;
  return false;
}

/// The next place between two that ran and differ.
std::optional<std::size_t> between(const std::vector<Point>& points, std::size_t from,
                                   std::size_t to) {
  std::size_t low = from + 1, high = to;  // the rows beside them
  while (low < to && points[low].tried == Tried::no) ++low;
  while (high > from + 1 && points[high - 1].tried == Tried::no) --high;
  const std::size_t before = low - (from + 1), after = to - high;
  if (before > 0 && (before >= after || low == to)) return middle(from + 1, low);
  if (after > 0) return middle(high, to);
  const auto [begin, end] = longest(points, from + 1, to);
  if (begin == end || refused_alike(points, from + 1, to)) return {};
  return middle(begin, end);
}

}  // namespace

Grew parse_grew(const std::string& text) {
  Grew out{.share = 0, .text = text};
  if (text.ends_with('%')) {
    const char* end = text.data() + text.size() - 1;
    const auto [rest, error] = std::from_chars(text.data(), end, out.share);
    if (error == std::errc() && rest == end && out.share >= 0 && out.share <= 100) {
      out.share /= 100;
      return out;
    }
  } else if (const auto bytes = parse_bytes_or_zero(text)) {
    out.bytes = *bytes;
    return out;
  }
  throw UsageError("bisect: --grew " + text + ": give a share, as in 1%, or bytes, as in 20MiB");
}

bool differ(const Point& one, const Point& other, const Grew& grew) {
  const auto beyond = [&](std::int64_t a, std::int64_t b) {
    const auto by = static_cast<double>(std::abs(a - b));
    return by > grew.share * static_cast<double>(std::min(a, b)) &&
           by > static_cast<double>(grew.bytes);
  };
  return beyond(one.reserved, other.reserved) || beyond(one.allocated, other.allocated);
}

std::vector<std::pair<std::size_t, std::size_t>> changed_between(const std::vector<Point>& points,
                                                                 const Grew& grew) {
  std::vector<std::pair<std::size_t, std::size_t>> out;
  std::optional<std::size_t> last;
  for (std::size_t i = 0; i < points.size(); ++i) {
    if (points[i].tried != Tried::ran) continue;
    if (last && differ(points[*last], points[i], grew)) out.emplace_back(*last, i);
    last = i;
  }
  return out;
}

std::vector<std::size_t> next_points(const std::vector<Point>& points, const Grew& grew, bool all) {
  std::vector<std::size_t> out;
  const std::size_t count = points.size();
  if (all) {
    for (std::size_t i = 0; i < count; ++i)
      if (points[i].tried == Tried::no) out.push_back(i);
    return out;
  }
  if (count > 0 && points.front().tried == Tried::no) out.push_back(0);
  if (count > 1 && points.back().tried == Tried::no) out.push_back(count - 1);
  if (!out.empty()) return out;
  const auto ran = [](const Point& one) { return one.tried == Tried::ran; };
  const auto first = std::ranges::find_if(points, ran);
  if (first == points.end()) {
    const auto [begin, end] = longest(points, 0, count);
    if (begin < end && !refused_alike(points, 0, count)) out.push_back(middle(begin, end));
    return out;
  }
  const auto low = static_cast<std::size_t>(first - points.begin());
  const auto high =
      count - 1 -
      static_cast<std::size_t>(std::find_if(points.rbegin(), points.rend(), ran) - points.rbegin());
  std::size_t begin = low, end = high + 1;
  while (begin > 0 && points[begin - 1].tried == Tried::no) --begin;
  while (end < count && points[end].tried == Tried::no) ++end;
  const auto beyond = [&](std::size_t row, std::size_t row_end, std::size_t from, std::size_t to) {
    const bool beside = row < row_end;  // the untried ones beside the first, or the last, that ran
    if (!beside && refused_alike(points, from, to)) return;
    const auto [first_of, end_of] = beside ? std::pair(row, row_end) : longest(points, from, to);
    if (first_of < end_of) out.push_back(middle(first_of, end_of));
  };
  beyond(begin, low, 0, low);
  beyond(high + 1, end, high + 1, count);
  for (const auto& [from, to] : changed_between(points, grew))
    if (const auto place = between(points, from, to)) out.push_back(*place);
  return out;
}

}  // namespace tidemark
