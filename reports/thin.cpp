#include "reports/thin.h"

#include <algorithm>
#include <numeric>
#include <ranges>

namespace tidemark {
std::vector<std::size_t> extremes(std::size_t count, std::size_t most,
                                  const std::vector<Height>& heights) {
  const std::size_t each = 2 * heights.size(), stretches = (std::max(most, each + 2) - 2) / each;
  std::vector<std::size_t> keep;
  if (count <= std::max(most, each + 2)) {
    keep.resize(count);
    std::iota(keep.begin(), keep.end(), 0);
    return keep;
  }
  keep = {0, count - 1};
  for (std::size_t i = 0; i < stretches; ++i) {
    const auto stretch = std::views::iota(count * i / stretches, count * (i + 1) / stretches);
    for (const Height& height : heights) {
      const auto [low, high] = std::ranges::minmax_element(stretch, {}, height);
      keep.insert(keep.end(), {*low, *high});
    }
  }
  std::ranges::sort(keep);
  keep.erase(std::ranges::unique(keep).begin(), keep.end());
  return keep;
}

}  // namespace tidemark
