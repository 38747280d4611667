// Footprints against a set of bytes, for thousands of random shapes.
#include "harness/virtual/race/footprint.h"

#include <gtest/gtest.h>

#include <random>
#include <set>

namespace tidemark::race {
namespace {

using Set = std::set<std::uintptr_t>;

Set bytes_of(const Footprint& f, std::uintptr_t from, std::uintptr_t to) {
  Set all;
  for (std::size_t r = 0; r < f.rows; ++r)
    for (std::size_t x = 0; x < f.width; ++x)
      if (const auto at = f.begin + r * f.pitch + x; at >= from && at < to) all.insert(at);
  return all;
}

struct Random {
  std::mt19937 generator{7};
  std::size_t below(std::size_t n) { return generator() % n; }
  Footprint footprint(std::size_t pitch) {
    Footprint f{1000 + below(60), 1 + below(pitch - 1), 1, 0};
    if (below(3) > 0) f.rows = 2 + below(8), f.pitch = pitch;
    return f;
  }
};

TEST(Footprint, CommonBytesAndCoveringEqualSetsOfBytes) {
  Random random;
  int met = 0, covered = 0;
  for (int i = 0; i < 20000; ++i) {
    const std::size_t pitch = 3 + random.below(12);
    const Footprint a = random.footprint(pitch),
                    b = random.footprint(random.below(4) ? pitch : 3 + random.below(12));
    const std::uintptr_t from = 990 + random.below(60), to = from + random.below(150);
    const Set sa = bytes_of(a, from, to), sb = bytes_of(b, from, to);
    Set both;
    for (auto at : sa)
      if (sb.contains(at)) both.insert(at);
    ASSERT_EQ(both.size(), common_bytes(a, b, from, to)) << i;
    if (covers(a, b, from, to)) {
      ++covered;
      ASSERT_EQ(sb, both) << i;
    }
    met += !both.empty();
  }
  EXPECT_GT(met, 5000);
  EXPECT_GT(covered, 1000);
}

TEST(Footprint, RowsOfOnePitchThatInterleaveAreDisjointHoweverMany) {
  const Footprint left{0, 8, 1 << 20, 16}, right{8, 8, 1 << 20, 16};
  EXPECT_EQ(0U, common_bytes(left, right, 0, ~std::uintptr_t{0}));
  EXPECT_GT(common_bytes(left, Footprint{7, 2, 1 << 20, 16}, 0, ~std::uintptr_t{0}), 0U);
  EXPECT_TRUE(covers({0, 8, 100, 16}, {16 + 2, 6, 50, 16}, 0, ~std::uintptr_t{0}));
  EXPECT_FALSE(covers({0, 8, 100, 16}, {16 + 2, 7, 50, 16}, 0, ~std::uintptr_t{0}));
}

// Strided tensors with a few pieces are written out exactly.
TEST(Footprint, TensorsAreTheirBytes) {
  Random random;
  for (int i = 0; i < 5000; ++i) {
    const std::size_t dims = random.below(5), element = std::size_t{1} << random.below(3);
    std::vector<std::int64_t> sizes, strides;
    for (std::size_t d = 0; d < dims; ++d) {
      sizes.push_back(static_cast<std::int64_t>(1 + random.below(4)));
      strides.push_back(static_cast<std::int64_t>(random.below(20)));
    }
    Set expected;
    std::vector<std::int64_t> index(dims, 0);
    for (bool more = true; more;) {
      std::int64_t offset = 0;
      for (std::size_t d = 0; d < dims; ++d) offset += index[d] * strides[d];
      for (std::size_t x = 0; x < element; ++x)
        expected.insert(500 + static_cast<std::size_t>(offset) * element + x);
      more = false;
      for (std::size_t d = 0; d < dims && !more; ++d) {
        if (++index[d] < sizes[d])
          more = true;
        else
          index[d] = 0;
      }
    }
    std::vector<Footprint> pieces;
    append_footprints(pieces, 500, element, sizes.data(), strides.data(), dims);
    Set actual;
    for (const Footprint& f : pieces) {
      ASSERT_TRUE(f.rows == 1 || f.pitch > f.width);
      actual.merge(bytes_of(f, 0, 100000));
    }
    ASSERT_EQ(expected, actual) << i;
  }
}

TEST(Footprint, DenseTensorsAreOneRowAndEmptyOnesNothing) {
  const std::int64_t sizes[] = {4, 3, 5}, permuted[] = {5, 20, 1}, none[] = {4, 0, 5};
  std::vector<Footprint> pieces;
  append_footprints(pieces, 0, 4, sizes, permuted, 3);
  EXPECT_EQ((std::vector<Footprint>{{0, 240, 1, 0}}), pieces);
  pieces.clear();
  append_footprints(pieces, 0, 4, none, permuted, 3);
  EXPECT_TRUE(pieces.empty());
}

TEST(Footprint, TooManyPiecesAreLeftOut) {
  const std::int64_t sizes[] = {100, 100, 2}, strides[] = {100000, 300, 100};
  std::vector<Footprint> pieces;
  append_footprints(pieces, 0, 4, sizes, strides, 3);
  EXPECT_GT(pieces.size(), 0U);
  EXPECT_LE(pieces.size(), 64U);
  for (const Footprint& f : pieces) EXPECT_EQ(0U, f.begin % 400);
}

}  // namespace
}  // namespace tidemark::race
