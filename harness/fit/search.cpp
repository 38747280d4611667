#include "harness/fit/search.h"

#include <algorithm>
#include <cmath>

namespace tidemark {
namespace {

constexpr std::size_t kSecants = 8;  // runs after which the bracket is halved instead

bool decided(const Seen& seen) { return seen.fits == Fits::yes || seen.fits == Fits::no; }

/// The place nearest to `wanted` within (low, high) that has not been tried; -1: none.
std::int64_t untried(const Known& known, std::int64_t wanted, std::int64_t low, std::int64_t high) {
  for (std::int64_t far = 0; far < high - low; ++far)
    for (const std::int64_t place : {wanted - far, wanted + far})
      if (place > low && place < high && !known.contains(place)) return place;
  return -1;
}

void add(std::vector<std::int64_t>& places, std::int64_t place) {
  if (place >= 0 && std::ranges::find(places, place) == places.end()) places.push_back(place);
}

std::vector<std::int64_t> widened(const Known& known, std::int64_t count) {
  const std::int64_t low = largest(known), above = count - 1 - low;
  const std::int64_t step = std::max<std::int64_t>(1, (above + kWiden - 1) / kWiden);
  std::vector<std::int64_t> places;
  for (std::int64_t place = low + 1; place < count && places.size() < 2; place += step)
    if (!known.contains(place)) places.push_back(place);
  return places;
}

}  // namespace

bool grows(const Known& known) {
  double highest = 0;
  bool full = false;
  for (const auto& [place, seen] : known) {
    if (!decided(seen)) continue;
    if (seen.peak < highest || (full && seen.fits == Fits::yes)) return false;
    highest = seen.peak;
    full = full || seen.fits == Fits::no;
  }
  return true;
}

std::int64_t largest(const Known& known) {
  std::int64_t place = -1;
  for (const auto& [at, seen] : known)
    if (seen.fits == Fits::yes) place = at;
  return place;
}

std::vector<std::int64_t> next_places(const Known& known, std::int64_t count, double capacity) {
  std::vector<std::int64_t> places;
  for (const std::int64_t end : {std::int64_t{0}, count - 1})
    if (!known.contains(end)) add(places, end);
  if (!places.empty()) return places;
  if (!grows(known)) return widened(known, count);
  std::int64_t low = largest(known), high = count;
  double below = 0, above = 0;
  for (const auto& [place, seen] : known) {
    if (seen.fits == Fits::yes) below = seen.peak;
    if (seen.fits == Fits::no && high == count) high = place, above = seen.peak;
  }
  if (high - low <= 1) return {};
  std::int64_t guess = (low + high) / 2;
  const bool bracketed = low >= 0 && high < count && above > below;
  if (bracketed && known.size() < kSecants)  // the peaks of a program are often a line
    guess = low + static_cast<std::int64_t>(std::floor((capacity - below) / (above - below) *
                                                       static_cast<double>(high - low)));
  guess = std::clamp(guess, low + 1, high - 1);
  add(places, untried(known, guess, low, high));
  add(places, untried(known, guess + 1, low, high));
  return places;
}

}  // namespace tidemark
