#include "harness/virtual/device/stream_pool.h"

#include <algorithm>

#include "harness/virtual/device/memory.h"

namespace tidemark::device {
namespace {

constexpr std::size_t kGrowth = std::size_t{32} << 20;  // what CUDA's pools reserve at a time

}  // namespace

// Neighbouring free blocks of one segment that may be used count as one; the smallest such run that
// is large enough, of equals the lowest. 0 where there is none.
template <class Usable>
std::uintptr_t StreamPool::best_run(std::size_t bytes, Usable usable) const {
  std::uintptr_t best = 0, begin = 0;
  std::size_t best_bytes = 0, length = 0;
  const auto close = [&] {
    if (length >= bytes && (!best || length < best_bytes)) {
      best = begin;
      best_bytes = length;
    }
    length = 0;
  };
  for (const auto& [place, block] : free_) {
    if (!usable(block)) {
      close();
      continue;
    }
    if (length && (begin + length != place || segments_.contains(place))) close();
    if (length == 0) begin = place;
    length += block.bytes;
  }
  close();
  return best;
}

// Takes the first `bytes` of a run out of the free blocks; returns what had to be done before.
Mark StreamPool::cut(std::uintptr_t begin, std::size_t bytes) {
  Mark ready;
  for (std::size_t left = bytes; left > 0;) {
    const auto at = free_.find(begin + (bytes - left));
    const std::uintptr_t place = at->first;
    const FreeBlock block = at->second;
    free_.erase(at);
    ready.merge(block.ready);
    const std::size_t taken = std::min(left, block.bytes);
    if (taken < block.bytes) {
      free_.emplace(place + taken, FreeBlock{block.bytes - taken, block.ready, block.stream});
    }
    left -= taken;
  }
  blocks_.emplace(begin, bytes);
  used += bytes;
  used_high = std::max(used_high, used);
  return ready;
}

bool StreamPool::grow(std::size_t bytes) {
  const std::size_t least = round_up(bytes, kGranule);
  for (std::size_t size : {std::max(kGrowth, least), least}) {
    const std::uintptr_t begin = engine().memory_of(device).take(size);
    if (!begin) continue;
    segments_.emplace(begin, size);
    free_.emplace(begin, FreeBlock{size, {}, -1});
    reserved += size;
    reserved_high = std::max(reserved_high, reserved);
    return true;
  }
  return false;
}

std::uintptr_t StreamPool::take(Stream& s, std::size_t bytes) {
  Engine& e = engine();
  const auto mine = [&](const FreeBlock& b) {
    return b.stream < 0 || b.stream == s.index || (follow_events && s.clock.covers(b.ready.clock));
  };
  const auto mine_or_done = [&](const FreeBlock& b) {
    return mine(b) || (opportunistic && e.is_done(b.ready));
  };
  std::uintptr_t begin = best_run(bytes, mine);
  if (!begin) begin = best_run(bytes, mine_or_done);
  if (!begin && grow(bytes)) begin = best_run(bytes, mine);
  if (begin) {
    s.clock.merge(cut(begin, bytes).clock);  // it is done, or is ordered before `s` already
    return begin;
  }
  if (internal) begin = best_run(bytes, [](const FreeBlock&) { return true; });
  if (begin) e.order_after(s, cut(begin, bytes));  // rather wait for another stream than fail
  return begin;
}

void StreamPool::put_back(std::uintptr_t begin, const Mark& ready, std::int64_t stream) {
  const auto block_at = blocks_.find(begin);
  FreeBlock block{block_at->second, ready, stream};
  used -= block.bytes;
  blocks_.erase(block_at);
  // It joins a neighbour that the same stream freed.
  const auto join = [&](const FreeBlock& other) {
    block.bytes += other.bytes;
    block.ready.merge(other.ready);
  };
  const auto next = free_.find(begin + block.bytes);
  if (next != free_.end() && next->second.stream == stream && !segments_.contains(next->first)) {
    join(next->second);
    free_.erase(next);
  }
  auto before = free_.lower_bound(begin);
  if (before != free_.begin() && !segments_.contains(begin)) {
    --before;
    if (before->second.stream == stream && before->first + before->second.bytes == begin) {
      join(before->second);
      begin = before->first;
      free_.erase(before);
    }
  }
  free_.emplace(begin, std::move(block));
  if (!alive && blocks_.empty()) shrink(0);
}

void StreamPool::shrink(std::uint64_t keep) {
  for (auto segment = segments_.end(); segment != segments_.begin() && reserved > keep;) {
    --segment;
    const auto [begin, bytes] = *segment;
    std::size_t idle = 0;
    const auto first = free_.lower_bound(begin), last = free_.lower_bound(begin + bytes);
    for (auto block = first; block != last; ++block) {
      if (engine().is_done(block->second.ready)) idle += block->second.bytes;
    }
    if (idle != bytes) continue;
    free_.erase(first, last);
    engine().memory_of(device).give(begin);
    reserved -= bytes;
    segment = segments_.erase(segment);
  }
}

}  // namespace tidemark::device
