#include "reference/memory/attention_plan.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "reference/memory/replay.h"

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

}  // namespace

AttentionPlan::AttentionPlan(const AttentionShape& d, std::int64_t processors)
    : queries(d.batch * d.sequence * d.heads * d.head * (d.bf16 ? 2 : 4)),
      keys(queries / d.heads * d.kv_heads),
      repeats(!d.bf16 && d.heads != d.kv_heads),
      copies(repeats && d.kv_heads > 1) {
  const auto heads = d.batch * d.heads;
  if (!d.bf16) {
    statistics = heads * rounded(d.sequence, 32) * 4;
    delta = heads * d.sequence * 4;
    // A tile of 64 x 64 and its lock for every 64 queries (heads of at most 64 elements).
    workspace = heads * divided(d.sequence, 64) * (64 * 64 * 4 + 16);
    return;
  }
  statistics = heads * d.sequence * 4;
  const auto padded = rounded(d.sequence, 128), wide = rounded(d.head, d.head <= 128 ? 32 : 64);
  delta = heads * padded * 4;
  workspace = delta * wide;
  const auto key_block = d.head <= 64 ? 256 : d.head <= 128 ? 128 : 64;
  const auto parts =
      splits(heads * divided(d.sequence, 64), 2 * processors, divided(d.sequence, key_block));
  if (parts > 1) {
    split_statistics = parts * statistics;
    split_output = split_statistics * wide;
  }
}

}  // namespace tidemark::reference
