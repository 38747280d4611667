// Results of a step after its end: the moment of its peak is made again from its
// events.
#include <algorithm>
#include <ranges>
#include <set>

#include "harness/device/platform.h"
#include "harness/measure/allocator_trace.h"

namespace tidemark {
namespace {

constexpr std::size_t kMostSamples = 1500;  // about
constexpr std::size_t kMostBlocks = 4000;   // of what is reserved

}  // namespace

std::vector<Sample> AllocatorTrace::timeline() {
  std::lock_guard lock(mutex);
  // Thinned to buckets that keep the highest sample of each statistic, so that no peak is lost.
  if (samples_.size() <= kMostSamples) return samples_;
  std::vector<Sample> thin;
  const std::size_t bucket = samples_.size() * 4 / kMostSamples + 1;
  for (std::size_t begin = 0; begin < samples_.size(); begin += bucket) {
    const std::size_t end = std::min(begin + bucket, samples_.size());
    std::set<std::size_t> keep{begin, end - 1};
    for (auto member : {&Sample::allocated, &Sample::active, &Sample::reserved})
      keep.insert(*std::ranges::max_element(std::views::iota(begin, end), {},
                                            [&](std::size_t i) { return samples_[i].*member; }));
    for (auto i : keep) thin.push_back(samples_[i]);
  }
  return thin;
}

std::vector<AliveBlock> AllocatorTrace::largest(std::size_t most) {
  settle_now();
  std::lock_guard lock(mutex);
  BlockLayout layout = before_;
  for (std::size_t i = 0; i < peak_.count; ++i) layout.apply(changes_[i]);
  std::vector<AliveBlock> out;
  for (const auto& [address, block] : layout.blocks()) {
    const Owner& owner = owners_[block.owner];
    out.push_back({block.size, block.requested, owner.category, ops_.all()[block.stack],
                   owner.shape, owner.dtype, streams_.at(owner.stream),
                   block.state == BlockState::pending_free});
  }
  std::ranges::stable_sort(out, std::greater(), &AliveBlock::bytes);
  out.resize(std::min(out.size(), most));
  return out;
}

MemoryHistory AllocatorTrace::history(std::size_t most) {
  settle_now();
  std::lock_guard lock(mutex);
  MemoryHistory out{.segments = now_.segments(), .streams = streams_};
  const std::size_t from = changes_.size() - std::min(most, changes_.size());
  out.traces.emplace_back(changes_.begin() + static_cast<std::ptrdiff_t>(from), changes_.end());
  out.left_out = static_cast<std::int64_t>(from);
  out.set_operators(ops_.all());
  out.keep_largest(kMostBlocks);
  return out;
}

}  // namespace tidemark
