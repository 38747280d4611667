#include "harness/memory/segment_lives.h"

#include <algorithm>

namespace tidemark {

SegmentLives::SegmentLives(std::size_t device, const std::vector<Segment>& pools,
                           const std::vector<PooledSegment>& pooled) {
  for (const PooledSegment& one : pooled)
    if (static_cast<std::size_t>(one.device) == device) pooled_[one.event] = one.pool;
  for (const Segment& segment : pools)
    if (static_cast<std::size_t>(segment.device) == device && segment.pool != PoolId{})
      pools_[segment.address] = {segment.address + segment.total_size, segment.pool};
}

void SegmentLives::begin(SegmentLife one) {
  live_[one.address] = out_.size();
  out_.push_back(one);
}

void SegmentLives::before(const Segment& segment) {
  begin({.address = segment.address,
         .bytes = segment.total_size,
         .stream = segment.stream,
         .mapped = segment.expandable});
}

void SegmentLives::apply(const AllocatorEvent& event, std::size_t moment) {
  switch (event.action) {
    case AllocatorAction::segment_alloc:
    case AllocatorAction::segment_map: {
      const auto pool = pooled_.find(moment - 1);
      return begin({.address = event.address,
                    .bytes = event.size,
                    .stream = event.stream,
                    .pool = pool == pooled_.end() ? PoolId{} : pool->second,
                    .mapped = event.action == AllocatorAction::segment_map,
                    .from = moment});
    }
    case AllocatorAction::segment_free:
      if (const auto one = live_.find(event.address); one != live_.end()) {
        out_[one->second].until = moment;
        live_.erase(one);
      }
      return;
    case AllocatorAction::segment_unmap:
      return unmap(event.address, event.size, moment);
    default:
      return;
  }
}

/// Ends every range that the unmapped one touches; what of it stays mapped begins anew.
void SegmentLives::unmap(std::int64_t address, Bytes bytes, std::size_t moment) {
  const std::int64_t end = address + bytes;
  auto one = live_.upper_bound(address);
  if (one != live_.begin()) --one;
  std::vector<SegmentLife> rests;
  while (one != live_.end() && one->first < end) {
    SegmentLife& range = out_[one->second];
    const std::int64_t last = range.address + range.bytes;
    if (last <= address) {
      ++one;
      continue;
    }
    range.until = moment;
    SegmentLife rest = range;
    rest.from = moment, rest.until = 0;
    if (range.address < address) rest.bytes = address - range.address, rests.push_back(rest);
    if (last > end) rest.address = end, rest.bytes = last - end, rests.push_back(rest);
    one = live_.erase(one);
  }
  for (const SegmentLife& rest : rests) begin(rest);
}

std::vector<SegmentLife> SegmentLives::take(std::size_t end) {
  const bool at_end_alone = pooled_.empty() && !pools_.empty();
  if (at_end_alone)
    for (SegmentLife& one : out_) one.pool = {-1, -1};
  for (const auto& [address, at] : live_) {
    SegmentLife& one = out_[at];
    one.until = end;
    if (!at_end_alone) continue;
    one.pool = {};
    auto pool = pools_.upper_bound(address);
    if (pool != pools_.begin() && address < (--pool)->second.first) one.pool = pool->second.second;
  }
  std::erase_if(out_, [](const SegmentLife& one) { return one.from >= one.until; });
  std::ranges::stable_sort(out_, {}, &SegmentLife::from);
  return std::move(out_);
}

}  // namespace tidemark
