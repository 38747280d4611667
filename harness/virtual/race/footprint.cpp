#include "harness/virtual/race/footprint.h"

#include <algorithm>
#include <array>

namespace tidemark::race {
namespace {

constexpr std::size_t kMostRows = 4096, kMostPieces = 64;

// Bytes of `f` below `limit`.
std::size_t bytes_below(const Footprint& f, std::uintptr_t limit) {
  if (limit <= f.begin) return 0;
  const std::size_t reach = limit - f.begin;
  if (f.dense()) return std::min(reach, f.width);
  const std::size_t whole = std::min(f.rows, reach / f.pitch);
  return whole * f.width + (whole < f.rows ? std::min(f.width, reach - whole * f.pitch) : 0);
}

std::size_t bytes_within(const Footprint& f, std::uintptr_t from, std::uintptr_t to) {
  return to > from ? bytes_below(f, to) - bytes_below(f, from) : 0;
}

// Rows of `f` that reach into [from, to): the first one, and one past the last.
std::pair<std::size_t, std::size_t> rows_within(const Footprint& f, std::uintptr_t from,
                                                std::uintptr_t to) {
  if (f.dense()) return {0, 1};
  const std::size_t first = from < f.begin + f.width ? 0 : (from - f.begin - f.width) / f.pitch + 1;
  const std::size_t last = to <= f.begin ? 0 : (to - f.begin - 1) / f.pitch + 1;
  return {std::min(first, f.rows), std::min(last, f.rows)};
}

}  // namespace

std::size_t common_bytes(const Footprint& a, const Footprint& b, std::uintptr_t from,
                         std::uintptr_t to) {
  from = std::max({from, a.begin, b.begin});
  to = std::min({to, a.end(), b.end()});
  if (from >= to) return 0;
  if (a.dense()) return bytes_within(b, from, to);
  if (b.dense()) return bytes_within(a, from, to);
  const bool a_fewer = a.rows <= b.rows;
  const Footprint& walked = a_fewer ? a : b;
  const Footprint& other = a_fewer ? b : a;
  auto [row, last] = rows_within(walked, from, to);
  last = std::min(last, row + kMostRows);
  if (a.pitch == b.pitch && last - row > 4) {  // every row but the outer ones is like the next
    const std::uintptr_t second = walked.begin + (row + 1) * walked.pitch;
    const std::size_t each = bytes_within(other, second, second + walked.width);
    if (each == 0) last = row + 2;
  }
  std::size_t bytes = 0;
  for (; row < last; ++row) {
    const std::uintptr_t begin = walked.begin + row * walked.pitch;
    bytes += bytes_within(other, std::max(from, begin), std::min(to, begin + walked.width));
  }
  return bytes;
}

bool covers(const Footprint& a, const Footprint& b, std::uintptr_t from, std::uintptr_t to) {
  from = std::max(from, b.begin);
  to = std::min(to, b.end());
  if (from >= to) return true;
  if (a.begin > from || a.end() < to) return false;
  if (a.dense()) return true;
  if (b.dense() || a.pitch != b.pitch) return false;
  const std::size_t shift = b.begin >= a.begin
                                ? (b.begin - a.begin) % a.pitch
                                : (a.pitch - (a.begin - b.begin) % a.pitch) % a.pitch;
  return shift + b.width <= a.width;
}

void append_footprints(std::vector<Footprint>& to, std::uintptr_t address, std::size_t element,
                       const std::int64_t* sizes, const std::int64_t* strides, std::size_t dims) {
  struct Dimension {
    std::size_t count, distance;  // bytes
  };
  std::array<Dimension, 16> outer;
  std::size_t kept = 0;
  for (std::size_t d = 0; d < dims && kept < outer.size(); ++d) {
    if (sizes[d] <= 0) return;
    if (sizes[d] > 1 && strides[d] > 0)
      outer[kept++] = {static_cast<std::size_t>(sizes[d]),
                       static_cast<std::size_t>(strides[d]) * element};
  }
  std::sort(outer.begin(), outer.begin() + kept,
            [](const Dimension& a, const Dimension& b) { return a.distance < b.distance; });
  Footprint piece{address, element, 1, 0};
  std::size_t next = 0;
  for (; next < kept && outer[next].distance <= piece.width; ++next)
    piece.width += outer[next].distance * (outer[next].count - 1);
  for (; next < kept; ++next) {
    if (piece.dense()) {
      piece.rows = outer[next].count;
      piece.pitch = outer[next].distance;
    } else if (outer[next].distance == piece.rows * piece.pitch) {
      piece.rows *= outer[next].count;
    } else {
      break;
    }
  }
  const std::size_t first = to.size();
  to.push_back(piece);
  for (; next < kept; ++next) {
    const std::size_t so_far = to.size() - first;
    for (std::size_t i = 1; i < outer[next].count; ++i) {
      for (std::size_t j = 0; j < so_far; ++j) {
        if (to.size() - first >= kMostPieces) return;
        Footprint shifted = to[first + j];
        shifted.begin += i * outer[next].distance;
        to.push_back(shifted);
      }
    }
  }
}

}  // namespace tidemark::race
