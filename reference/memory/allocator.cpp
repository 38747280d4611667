#include "reference/memory/allocator.h"

#include <algorithm>
#include <limits>
#include <utility>

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

/// The largest block that an allocation of `size` may keep.
std::int64_t widest(std::int64_t size) { return size + (size > kLargestSmall ? kMiB : 0); }

std::int64_t segment_size(std::int64_t size) {
  if (size <= kLargestSmall) return kSmallSegment;
  if (size < kOwnSegment) return kLargeSegment;
  return round_up(size, kSegmentGranule);
}

}  // namespace

Allocator::Handle Allocator::allocate(const Amount& amount, int stream) {
  if (amount.bytes == 0) return nullptr;
  if (fault) fault->symbols.insert(amount.symbol);
  const bool wrong = fault && fault->allocations++ == fault->allocation;
  if (!wrong || fault->kind == PlanFault::none) return take(amount, stream);
  if (fault->kind == PlanFault::dropped) return &dropped_;
  Block* block = take(amount, stream);
  if (fault->kind == PlanFault::doubled) block->twin = take(amount, stream);
  block->late = fault->kind == PlanFault::freed_late;
  return block;
}

Allocator::Handle Allocator::take(const Amount& amount, int stream) {
  poll();
  const auto size = round_up(amount.bytes, kGranule);
  const bool small = size <= kLargestSmall;
  Block* block = find(size, stream, small);
  if (!block) block = segment(size, stream, small);
  split(block, size);
  block->used = true;
  block->requested = amount.bytes;
  block->unsplit = block->size - size;
  allocated.add(block->size);
  active.add(block->size);
  requested.add(amount.bytes);
  rounded_.add(size);
  widest_.add(widest(size));
  block->allocated_term = allocated_account_.place(amount);
  block->active_term = active_account_.place(amount);
  ++allocated_account_.terms[block->allocated_term].count;
  ++active_account_.terms[block->active_term].count;
  allocated_account_.unsplit += block->unsplit;
  active_account_.unsplit += block->unsplit;
  return block;
}

void Allocator::free(Handle block) {
  if (!block || block == &dropped_) return;
  if (block->late) {
    late_.push_back(block);
    return;
  }
  free(std::exchange(block->twin, nullptr));
  give_back(block);
}

void Allocator::give_back(Block* block) {
  settle(allocated, allocated_account_, at_peaks_.allocated, settled_[0]);
  settle(rounded_, allocated_account_, at_peaks_.in_any_block.highest, settled_[3]);
  block->used = false;
  allocated.add(-block->size);
  rounded_.add(block->unsplit - block->size);
  widest_.add(-widest(block->size - block->unsplit));
  --allocated_account_.terms[block->allocated_term].count;
  allocated_account_.unsplit -= block->unsplit;
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

// The account of a peak is taken before the figure falls, and at the end.
void Allocator::settle(Figure& figure, const Account& now, Account& at_peak,
                       std::int64_t& settled) {
  if (figure.current != figure.peak || settled == figure.peak) return;
  at_peak = now;
  settled = figure.peak;
}

const Allocator::Peaks& Allocator::at_peaks() {
  settle(allocated, allocated_account_, at_peaks_.allocated, settled_[0]);
  settle(active, active_account_, at_peaks_.active, settled_[1]);
  settle(requested, active_account_, at_peaks_.requested, settled_[2]);
  settle(rounded_, allocated_account_, at_peaks_.in_any_block.highest, settled_[3]);
  at_peaks_.in_any_block.widest = widest_.peak;
  return at_peaks_;
}

void Allocator::record(Handle block, int stream) {
  if (!block || block == &dropped_) return;
  if (stream != block->stream) block->uses.insert(stream);
  record(block->twin, stream);
}

void Allocator::reached(int stream, std::int64_t count) {
  done_[stream] = std::max(done_[stream], count);
}

void Allocator::reset_peaks() {
  for (Block* block : std::exchange(late_, {})) {
    block->late = false;
    free(block);
  }
  settled_.fill(-1);
  for (auto* figure : {&allocated, &active, &reserved, &requested, &rounded_, &widest_})
    figure->peak = figure->current;
}

// The smallest of the stream's free blocks that is large enough; of equal ones the block with the
// lowest address.
Allocator::Block* Allocator::find(std::int64_t size, int stream, bool small) {
  auto& from = small ? small_ : large_;
  Block wanted{.address = std::numeric_limits<std::int64_t>::min(),
               .size = size,
               .stream = stream,
               .small = small};
  const auto match = from.lower_bound(&wanted);
  if (match == from.end() || (*match)->stream != stream) return nullptr;
  Block* block = *match;
  from.erase(match);
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
  settle(active, active_account_, at_peaks_.active, settled_[1]);
  settle(requested, active_account_, at_peaks_.requested, settled_[2]);
  --active_account_.terms[block->active_term].count;
  active_account_.unsplit -= block->unsplit;
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
