// Footprint of an access, the bytes that it touches: rows of equal width at equal distance. A dense
// tensor is one row, a narrow view of a matrix one a row of it; so views that interleave are seen
// to be disjoint.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace tidemark::race {

struct Footprint {
  std::uintptr_t begin = 0;
  std::size_t width = 0;  // bytes of one row
  std::size_t rows = 1;
  std::size_t pitch = 0;  // bytes from row to row, more than `width`; 0 with one row

  std::uintptr_t end() const { return begin + (rows - 1) * pitch + width; }
  bool dense() const { return rows == 1; }
  bool operator==(const Footprint&) const = default;
};

/// Number of bytes of [from, to) that both touch. Exact where one is dense or both have the same
/// pitch; else as many as the first 4,096 rows show, so never too many.
std::size_t common_bytes(const Footprint& a, const Footprint& b, std::uintptr_t from,
                         std::uintptr_t to);
/// True if `a` touches every byte of [from, to) that `b` touches; false also where that is not easy
/// to see.
bool covers(const Footprint& a, const Footprint& b, std::uintptr_t from, std::uintptr_t to);

/// The bytes of a tensor at `address` (sizes and strides in elements, strides not negative). More
/// than one outer dimension that does not fold into rows is written out; beyond 64 pieces the rest
/// is left out, so that nothing is claimed to be touched that is not.
void append_footprints(std::vector<Footprint>& to, std::uintptr_t address, std::size_t element,
                       const std::int64_t* sizes, const std::int64_t* strides, std::size_t dims);

}  // namespace tidemark::race
