#include "harness/fit/search.h"

#include <algorithm>
#include <cmath>

namespace tidemark {
namespace {

constexpr std::size_t kSecants = 8;  // runs after which the bracket is halved instead

/// The place nearest to `wanted` within (low, high) that has not been tried; -1: none.
std::int64_t untried(const Known& known, std::int64_t wanted, std::int64_t low, std::int64_t high) {
  for (std::int64_t far = 0; far < high - low; ++far)
    for (const std::int64_t place : {wanted - far, wanted + far})
      if (place > low && place < high && !known.contains(place)) return place;
  return -1;
}

void add(std::vector<Try>& tries, std::int64_t place, bool at_size = false) {
  const Try one{place, at_size};
  if (place >= 0 && tries.size() < 2 && std::ranges::find(tries, one) == tries.end())
    tries.push_back(one);
}

std::vector<Try> widened(const Known& known, std::int64_t count) {
  const std::int64_t low = largest(known), above = count - 1 - low;
  const std::int64_t step = std::max<std::int64_t>(1, (above + kWiden - 1) / kWiden);
  std::vector<Try> tries;
  for (const auto& [place, seen] : known)
    if (seen.at_edge && place > low) add(tries, place, true);
  if (!tries.empty()) return tries;
  for (std::int64_t place = low + 1; place < count; place += step)
    if (!known.contains(place)) add(tries, place);
  return tries;
}

/// Towards two neighbours, of which the first has at most `capacity` bytes and the second more.
std::vector<Try> towards_bound(const Known& known, std::int64_t high, double capacity) {
  std::int64_t low = -1;
  double below = 0, above = 0;
  for (const auto& [place, seen] : known) {
    if (place < high && seen.peak >= 0) low = place, below = seen.peak;
    if (place == high) above = seen.peak;
  }
  std::int64_t guess = low + (high - low) / 3, second = low + 2 * (high - low) / 3;
  if (low >= 0 && above > below && known.size() < kSecants) {  // the peaks are often a line
    guess = low + static_cast<std::int64_t>(std::floor((capacity - below) / (above - below) *
                                                       static_cast<double>(high - low)));
    second = guess + 1;
  }
  std::vector<Try> tries;
  for (const std::int64_t place : {guess, second})
    add(tries, untried(known, std::clamp(place, low + 1, std::max(low + 1, high - 1)), low, high));
  return tries;
}

/// Below the bound, where runs at the GPU's size decide.
std::vector<Try> towards_fit(const Known& known, std::int64_t bound) {
  const auto open = [&](std::int64_t place) {
    const auto seen = known.find(place);
    return seen == known.end() || seen->second.at_edge;
  };
  const std::int64_t low = largest(known);
  std::int64_t high = bound;  // the first that does not fit
  for (std::int64_t place = bound - 1; place > low; --place)
    if (const auto at = known.find(place); at != known.end() && at->second.fits == Fits::no)
      high = place;
  std::vector<Try> tries;
  if (bound - low - 1 <= kWiden) {
    for (std::int64_t place = bound - 1; place > low; --place)
      if (open(place)) add(tries, place, true);
    return tries;
  }
  for (std::int64_t far = 0; far < high - low; ++far)
    for (const std::int64_t place : {(low + high) / 2 - far, (low + high) / 2 + far})
      if (tries.empty() && place > low && place < high && open(place)) add(tries, place, true);
  return tries;
}

}  // namespace

bool grows(const Known& known) {
  double highest = 0;
  for (const auto& [place, seen] : known) {
    if (seen.peak < 0) continue;
    if (seen.peak < highest) return false;
    highest = seen.peak;
  }
  return true;
}

std::int64_t largest(const Known& known) {
  std::int64_t place = -1;
  for (const auto& [at, seen] : known)
    if (seen.fits == Fits::yes) place = at;
  return place;
}

std::int64_t first_above(const Known& known, std::int64_t count, double capacity) {
  for (const auto& [place, seen] : known)
    if (seen.peak > capacity) return place;
  return count;
}

std::vector<Try> next_tries(const Known& known, std::int64_t count, double capacity,
                            std::int64_t guess) {
  std::vector<Try> tries;
  const std::int64_t bound = first_above(known, count, capacity);
  if (guess >= 0 && known.empty()) {
    add(tries, guess);
    if (guess + 1 < count) add(tries, guess + 1);
    return tries;
  }
  const bool has_below = std::ranges::any_of(
      known, [&](const auto& each) { return each.first < bound && each.second.peak >= 0; });
  if (!known.contains(0) && (guess < 0 || !has_below)) add(tries, 0);
  if (!known.contains(count - 1) && (guess < 0 || bound == count)) add(tries, count - 1);
  if (!tries.empty()) return tries;
  if (!grows(known)) return widened(known, count);
  tries = towards_bound(known, bound, capacity);
  return tries.empty() ? towards_fit(known, bound) : tries;
}

}  // namespace tidemark
