#include "reference/memory/allocator.h"

#include <algorithm>
#include <limits>

namespace tidemark::reference {
namespace {

constexpr std::int64_t kGranule = 512;
constexpr std::int64_t kMiB = 1 << 20;
constexpr std::int64_t kLargestSmall = kMiB;  // up to here: the pool of 2 MiB segments
constexpr std::int64_t kSmallSegment = 2 * kMiB;
constexpr std::int64_t kLargeSegment = 20 * kMiB;  // for requests below ...
constexpr std::int64_t kOwnSegment = 10 * kMiB;    // ... this; from here on a segment of their own,
constexpr std::int64_t kSegmentGranule = 2 * kMiB;  // rounded up to this

std::int64_t round_up(std::int64_t bytes, std::int64_t granule) {
  return (bytes + granule - 1) / granule * granule;
}

std::int64_t segment_size(std::int64_t size) {
  if (size <= kLargestSmall) return kSmallSegment;
  if (size < kOwnSegment) return kLargeSegment;
  return round_up(size, kSegmentGranule);
}

}  // namespace

Allocator::Handle Allocator::allocate(std::int64_t bytes, int stream) {
  if (bytes == 0) return nullptr;
  poll();
  const auto size = round_up(bytes, kGranule);
  const bool small = size <= kLargestSmall;
  Block* block = find(size, stream, small);
  if (!block) block = segment(size, stream, small);
  split(block, size);
  block->used = true;
  block->requested = bytes;
  allocated.add(block->size);
  active.add(block->size);
  requested.add(bytes);
  return block;
}

void Allocator::free(Handle block) {
  if (!block) return;
  block->used = false;
  allocated.add(-block->size);
  if (block->uses.empty()) {
    release(block);
    return;
  }
  for (const int stream : block->uses) {
    events_[stream].push_back({enqueued_[stream], block});
    ++block->events;
  }
  block->uses.clear();
}

void Allocator::record(Handle block, int stream) {
  if (block && stream != block->stream) block->uses.insert(stream);
}

void Allocator::reached(int stream, std::int64_t count) {
  done_[stream] = std::max(done_[stream], count);
}

void Allocator::reset_peaks() {
  for (auto* figure : {&allocated, &active, &reserved, &requested}) figure->peak = figure->current;
}

// The smallest of the stream's free blocks that is large enough; of equal ones the block with the
// lowest address.
Allocator::Block* Allocator::find(std::int64_t size, int stream, bool small) {
  auto& from = small ? small_ : large_;
  Block wanted{.address = std::numeric_limits<std::int64_t>::min(),
               .size = size,
               .stream = stream,
               .small = small};
  const auto found = from.lower_bound(&wanted);
  if (found == from.end() || (*found)->stream != stream) return nullptr;
  Block* block = *found;
  from.erase(found);
  return block;
}

Allocator::Block* Allocator::segment(std::int64_t size, int stream, bool small) {
  const auto bytes = segment_size(size);
  const auto address = addresses_.next(bytes);
  blocks_.push_back({.address = address, .size = bytes, .stream = stream, .small = small});
  reserved.add(bytes);
  return &blocks_.back();
}

// The rest goes back to the pool, unless it is too little to be worth a block.
void Allocator::split(Block* block, std::int64_t size) {
  const auto rest = block->size - size;
  if (block->small ? rest < kGranule : rest <= kLargestSmall) return;
  blocks_.push_back({.address = block->address + size,
                     .size = rest,
                     .stream = block->stream,
                     .small = block->small,
                     .before = block,
                     .after = block->after});
  Block* remainder = &blocks_.back();
  if (block->after) block->after->before = remainder;
  block->after = remainder;
  block->size = size;
  pool(*remainder).insert(remainder);
}

void Allocator::release(Block* block) {
  active.add(-block->size);
  requested.add(-block->requested);  // only now, unlike allocated
  const auto free = [](const Block* b) { return b && !b->used && b->events == 0; };
  if (free(block->before)) {
    pool(*block).erase(block->before);
    block = merge(block->before, block);
  }
  if (free(block->after)) {
    pool(*block).erase(block->after);
    block = merge(block, block->after);
  }
  pool(*block).insert(block);
}

Allocator::Block* Allocator::merge(Block* left, Block* right) {
  left->size += right->size;
  left->after = right->after;
  if (right->after) right->after->before = left;
  return left;
}

// First in, first out on every stream, as the allocator polls its events.
void Allocator::poll() {
  for (auto& [stream, queue] : events_) {
    while (!queue.empty() && (instant_ || queue.front().position <= done_[stream])) {
      Block* block = queue.front().block;
      queue.pop_front();
      if (--block->events == 0) release(block);
    }
  }
}

}  // namespace tidemark::reference
