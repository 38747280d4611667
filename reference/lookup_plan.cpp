#include "reference/lookup_plan.h"

#include <algorithm>

namespace tidemark::reference {
namespace {

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

LookupPlan::LookupPlan(const LookupShape& s, const DeviceFacts& device)
    : sorts(s.tokens > 3072), indices(8 * s.tokens) {
  // Eight passes of 256 digits: their counts, each block's, a second buffer for keys and values.
  sort = 8 * 256 * 8 + divided(s.tokens, sort_tile(device.capability)) * 256 * 4 +
         2 * aligned(indices) + aligned(8 * 4) + kAlignment - 1;
  // 16 bytes for each block, and for 32 before the first; aligned twice.
  unique =
      aligned(16 * (divided(s.tokens, unique_tile(device.capability)) + 32)) + 2 * kAlignment - 1;
  const auto most = std::min(s.tokens, s.vocabulary);
  const auto all_parts = s.tokens / 10 + most;
  rows = 8 * most;
  parts = 8 * all_parts;
  // Few rows leave too few blocks for a sum a row.
  const auto width = divided(s.hidden, 32) * 32;
  const auto blocks = divided(most * width, std::min<std::int64_t>(width, 1024));
  atomic = blocks < 4 * device.processors && all_parts > 4 * blocks;
  sums = 4 * s.hidden * all_parts;
  if (atomic) sums = s.bf16 ? 4 * s.hidden * s.vocabulary : 0;
}

}  // namespace tidemark::reference
