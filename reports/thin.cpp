#include "reports/thin.h"

#include <algorithm>
#include <array>
#include <functional>
#include <numeric>

namespace tidemark {
namespace {

constexpr std::array kMembers{&Sample::allocated, &Sample::active, &Sample::reserved};
constexpr std::size_t kEnds = 2, kPerStretch = 2 * kMembers.size();

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

std::vector<Sample> thin(const std::vector<Sample>& samples, std::size_t most) {
  std::vector<Sample> all = without_repetitions(samples);
  most = std::max(most, kEnds + kPerStretch);
  if (all.size() <= most) return all;
  const std::size_t stretches = (most - kEnds) / kPerStretch;
  std::vector<std::size_t> keep{0, all.size() - 1};
  for (std::size_t i = 0; i < stretches; ++i) {
    const auto begin = all.begin() + static_cast<std::ptrdiff_t>(all.size() * i / stretches);
    const auto end = all.begin() + static_cast<std::ptrdiff_t>(all.size() * (i + 1) / stretches);
    for (auto member : kMembers) {
      const auto [low, high] = std::ranges::minmax_element(
          begin, end, {}, [member](const Sample& s) { return s.*member; });
      keep.push_back(static_cast<std::size_t>(low - all.begin()));
      keep.push_back(static_cast<std::size_t>(high - all.begin()));
    }
  }
  std::ranges::sort(keep);
  keep.erase(std::ranges::unique(keep).begin(), keep.end());
  std::vector<Sample> out;
  for (std::size_t i : keep) out.push_back(all[i]);
  return out;
}

std::vector<std::size_t> thin(const Spans& spans, std::size_t most,
                              const std::vector<std::int64_t>& wanted) {
  std::vector<std::size_t> order(spans.all.size());
  std::iota(order.begin(), order.end(), 0);
  if (order.size() <= most) return order;
  std::vector<bool> first(order.size());
  for (std::int64_t i : wanted) first.at(static_cast<std::size_t>(i)) = true;
  const auto length = [&](std::size_t i) {
    return std::pair(static_cast<bool>(first[i]), spans.all[i].end - spans.all[i].begin);
  };
  std::ranges::stable_sort(order, std::greater(), length);
  order.resize(most);
  std::ranges::sort(order);
  return order;
}

std::vector<const Segment*> thin(const MemoryMap& map, std::size_t most) {
  std::vector<const Segment*> order;
  for (const Segment& segment : map.segments) order.push_back(&segment);
  std::ranges::stable_sort(order, std::greater(), &Segment::bytes);
  std::size_t kept = 0, blocks = 0;
  for (const Segment* segment : order) {
    blocks += segment->parts.size();
    if (kept > 0 && blocks > most) break;
    ++kept;
  }
  order.resize(kept);
  std::ranges::sort(order, {}, &Segment::address);
  return order;
}

}  // namespace tidemark
