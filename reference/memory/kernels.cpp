#include "reference/memory/kernels.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

namespace tidemark::reference {
namespace {

std::int64_t rounded(std::int64_t a, std::int64_t b) { return divided(a, b) * b; }

/// Into how many parts flash's forward divides the keys: the fewest that come within 15 % of the
/// best use of the processors (num_splits_heuristic; in single precision, as there).
std::int64_t splits(std::int64_t blocks, std::int64_t slots, std::int64_t key_blocks) {
  if (static_cast<float>(blocks) >= 0.8f * static_cast<float>(slots)) return 1;
  const auto most = std::min({std::int64_t{128}, slots, key_blocks});
  const auto eligible = [&](std::int64_t n) {
    return n == 1 || divided(key_blocks, n) != divided(key_blocks, n - 1);
  };
  std::vector<float> use;
  for (std::int64_t n = 1; n <= most; ++n) {
    const float waves = static_cast<float>(blocks * n) / static_cast<float>(slots);
    use.push_back(eligible(n) ? waves / std::ceil(waves) : 0.f);
  }
  const float best = *std::ranges::max_element(use);
  for (std::int64_t n = 1; n <= most; ++n) {
    if (eligible(n) && use[static_cast<std::size_t>(n - 1)] >= 0.85 * best) return n;
  }
  return 1;
}

/// Queries of a tile in the memory-efficient backward in single precision: wide heads take the
/// larger kernel where its shared memory is there, whose size is not in the source; a device that
/// has one byte less takes the smaller.
std::int64_t tile_rows(std::int64_t head, std::int64_t shared_per_block) {
  const std::int64_t large = head <= 128 ? 166912 : 121344;
  return head > 64 && shared_per_block >= large ? 128 : 64;
}

// CUB aligns each part of its temporaries, and asks for as much again as the first may lack.
constexpr std::int64_t kAlignment = 256;
std::int64_t aligned(std::int64_t bytes) { return divided(bytes, kAlignment) * kAlignment; }

// Items of a block, from CUB's tuning by compute capability, for keys of 8 bytes with values of 8
// (radix sort) and of 4 (unique keys).
std::int64_t sort_tile(int capability) { return 384 * (capability >= 90 ? 12 : 10); }
std::int64_t unique_tile(int capability) {
  if (capability >= 100) return 384 * 10;
  if (capability >= 90) return 640 * 7;
  return capability >= 86 ? 64 * 5 : 256 * 7;
}

}  // namespace

AttentionPlan::AttentionPlan(const AttentionShape& d, const DeviceFacts& device)
    : shape(d),
      queries(d.batch * d.sequence * d.heads * d.head * (d.bf16 ? 2 : 4), "x"),
      keys(queries / d.heads * d.kv_heads, "k"),
      repeats(!d.bf16 && d.heads != d.kv_heads),
      copies(repeats && d.kv_heads > 1) {
  const auto heads = d.batch * d.heads;
  if (!d.bf16) {
    statistics = {heads * rounded(d.sequence, 32) * 4, "lse"};
    delta = {heads * d.sequence * 4, "delta"};
    // Tiles of so many queries by 64 elements, each with its lock.
    const auto rows = tile_rows(d.head, device.shared_per_block);
    workspace = {heads * divided(d.sequence, rows) * divided(d.head, 64) * (rows * 64 * 4 + 16),
                 "acc"};
    return;
  }
  statistics = {heads * d.sequence * 4, "lse"};
  const auto padded = rounded(d.sequence, 128), wide = rounded(d.head, d.head <= 128 ? 32 : 64);
  delta = {heads * padded * 4, "delta"};
  workspace = {delta * wide, "acc"};
  const auto key_block = d.head <= 64 ? 256 : d.head <= 128 ? 128 : 64;
  const auto parts = splits(heads * divided(d.sequence, 64), 2 * device.processors,
                            divided(d.sequence, key_block));
  if (parts > 1) {
    split_statistics = {parts * statistics, "parts"};
    split_output = {split_statistics * wide, "parts"};
  }
}

LookupPlan::LookupPlan(const LookupShape& s, const DeviceFacts& device)
    : sorts(s.tokens > 3072), indices(8 * s.tokens, "idx") {
  // Eight passes of 256 digits: their counts, each block's, a second buffer for keys and values.
  sort = {8 * 256 * 8 + divided(s.tokens, sort_tile(device.capability)) * 256 * 4 +
              2 * aligned(indices) + aligned(8 * 4) + kAlignment - 1,
          "sort"};
  // 16 bytes for each block, and for 32 before the first; aligned twice.
  unique = {
      aligned(16 * (divided(s.tokens, unique_tile(device.capability)) + 32)) + 2 * kAlignment - 1,
      "uniq"};
  const auto most = std::min(s.tokens, s.vocabulary);
  const auto all_parts = s.tokens / 10 + most;
  rows = {8 * most, "rows"};
  parts = {8 * all_parts, "rows"};
  // Few rows leave too few blocks for a sum a row.
  const auto width = divided(s.hidden, 32) * 32;
  const auto blocks = divided(most * width, std::min<std::int64_t>(width, 1024));
  atomic = blocks < 4 * device.processors && all_parts > 4 * blocks;
  sums = {4 * s.hidden * all_parts, "rows"};
  if (atomic) sums.bytes = s.bf16 ? 4 * s.hidden * s.vocabulary : 0;
}

SumOfRowsPlan::SumOfRowsPlan(const RowsShape& s, const DeviceFacts& device) {
  std::int64_t together = 4;  // columns that a thread loads at once
  while (s.columns % together != 0) together /= 2;
  const auto power = [most = 512 / together](std::int64_t n) {
    return n < most ? static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n)))
                    : most;
  };
  const auto across = power(s.columns / together), down = power(s.rows), most = 512 / together;
  auto width = std::min<std::int64_t>(across, 32);
  const auto height = std::min(down, most / width);
  width = std::min(across, most / height);
  if (s.rows < std::min<std::int64_t>(height * 16, 256)) return;  // a warp has a column to itself
  const auto each = divided(s.rows, height);                      // values of a thread
  const auto grid = divided(s.columns / together, width);
  const auto slots = device.processors * (device.threads_per_processor / (width * height));
  if (each < 256 || grid > slots) return;
  const auto blocks =
      std::max(std::min(divided(slots, grid), divided(each, 16)), divided(each, 256));
  if (blocks == 1) return;
  buffer = {4 * s.columns * blocks * width * together, "sum"};
  locks = {4 * grid, "sum"};
}

}  // namespace tidemark::reference
