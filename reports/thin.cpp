#include "reports/thin.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <ranges>

namespace tidemark {
namespace {

constexpr std::array kMembers{&Sample::allocated, &Sample::active, &Sample::reserved};

std::vector<Sample> without_repetitions(const std::vector<Sample>& samples) {
  std::vector<Sample> out;
  for (std::size_t i = 0; i < samples.size(); ++i) {
    const bool repeats =
        i > 0 && i + 1 < samples.size() && std::ranges::all_of(kMembers, [&](auto member) {
          return samples[i].*member == samples[i - 1].*member;
        });
    if (!repeats) out.push_back(samples[i]);
  }
  return out;
}

}  // namespace

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

std::vector<Sample> thin(const std::vector<Sample>& samples, std::size_t most) {
  const std::vector<Sample> all = without_repetitions(samples);
  std::vector<Height> heights;
  for (auto member : kMembers)
    heights.push_back(
        [&all, member](std::size_t i) { return static_cast<double>(all[i].*member); });
  std::vector<Sample> out;
  for (std::size_t i : extremes(all.size(), most, heights)) out.push_back(all[i]);
  return out;
}

}  // namespace tidemark
