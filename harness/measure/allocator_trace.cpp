#include "harness/measure/allocator_trace.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <algorithm>
#include <atomic>
#include <shared_mutex>

#include "harness/device/layer.h"
#include "harness/device/platform.h"
#include "harness/device/workspaces.h"

namespace tidemark {
namespace {

using c10::CachingDeviceAllocator::TraceEntry;
namespace allocator = c10::cuda::CUDACachingAllocator;

std::atomic<const char*> category_now{"activations"};
std::atomic<AllocatorTrace*> following{nullptr};

Bytes current_of(const c10::CachingAllocator::StatArray& stat) { return stat[0].current; }

c10::CachingDeviceAllocator::DeviceStats stats_of(int device) {
  return allocator::getDeviceStats(static_cast<c10::DeviceIndex>(device));
}

// The record's actions are in PyTorch's order; a snapshot of the allocator is none of them.
static_assert(TraceEntry::ALLOC == static_cast<int>(AllocatorAction::alloc) &&
              TraceEntry::SEGMENT_UNMAP == static_cast<int>(AllocatorAction::segment_unmap));
AllocatorAction action_of(TraceEntry::Action action) {
  return action == TraceEntry::OOM ? AllocatorAction::oom : static_cast<AllocatorAction>(action);
}

}  // namespace

const char* current_category() { return category_now; }
void set_current_category(const char* name) { category_now = name; }

// The allocator calls this under its own (recursive) lock, and its trackers cannot be detached: one
// for the process.
void on_trace(const TraceEntry& entry) {
  if (AllocatorTrace* trace = following) trace->on_event(entry);
}

void change_category(const at::Tensor& tensor, const char* category) {
  AllocatorTrace* trace = following;
  if (trace == nullptr) return;
  trace->settle_now();
  const std::lock_guard lock(trace->mutex_);
  trace->move(tensor.storage().data(), category);
}

void on_returned(const at::Tensor& tensor) {
  if (AllocatorTrace* trace = following) trace->describe(tensor);
}

AllocatorTrace::AllocatorTrace(int device) : device_(device) {
  static_cast<void>(ops_[""]);  // place 0: none
  static std::once_flag attached;
  std::call_once(attached, [] { allocator::attachAllocatorTraceTracker(on_trace); });
  if (current_of(stats_of(device).reserved_bytes) != 0) take_stock();
  following = this;
}

AllocatorTrace::~AllocatorTrace() { following = nullptr; }

// Reads the blocks that existed before this trace, from a snapshot.
void AllocatorTrace::take_stock() {
  owners_.push_back({"before", 0, 0, true, {}, {}});
  for (const auto& segment : allocator::snapshot({0, 0}).segments) {
    if (segment.device != device_) continue;
    BlockChange change;
    change.action =
        segment.is_expandable ? AllocatorAction::segment_map : AllocatorAction::segment_alloc;
    change.address = static_cast<std::int64_t>(segment.address);
    change.bytes = static_cast<Bytes>(segment.total_size);
    change.stream = stream(segment.stream);
    now_.apply(change);
    now_.set_pool(change.address, !segment.is_large);
    reserved_ += change.bytes;
    for (const auto& block : segment.blocks) {
      const auto bytes = static_cast<Bytes>(block.size);
      if (block.active || block.allocated) {
        change.action = AllocatorAction::alloc;
        change.bytes = static_cast<Bytes>(block.requested_size);
        change.block = bytes;
        now_.apply(change);
        active_ += bytes;
        if (block.allocated) {
          allocated_ += bytes;
          current_["before"] += bytes;
        } else {
          change.action = AllocatorAction::free_requested;
          now_.apply(change);
        }
      }
      change.address += bytes;
    }
  }
  before_ = now_;
  peak_ = {allocated_, 0};
  at_peak_ = current_;
}

Bytes AllocatorTrace::allocated() const { return current_of(stats_of(device_).allocated_bytes); }

std::uint32_t AllocatorTrace::stream(void* handle) {
  const auto [found, added] =
      stream_places_.try_emplace(handle, static_cast<std::uint32_t>(streams_.size()));
  if (added) streams_.push_back(platform().stream_name(handle));
  return found->second;
}

BlockLayout::Block* AllocatorTrace::block_at(std::int64_t address) {
  const auto found = now_.blocks().find(address);
  return found == now_.blocks().end() ? nullptr : &found->second;
}

// An ALLOC event comes before the statistics count its block. Active bytes change at nothing else
// until the next event (a free that completes is counted after its own event): what they have
// gained is the block, unsplit remainder and all.
void AllocatorTrace::settle(const Stats& stats) {
  if (!unsettled_) return;
  unsettled_ = false;
  BlockChange& change = changes_.back();
  change.block = current_of(stats.active_bytes) - active_;
  block_at(change.address)->bytes = change.block;
  allocated_ += change.block;
  active_ += change.block;
  current_[owners_[change.owner].category] += change.block;
  samples_.back() = {change.time, allocated_, active_, reserved_};
  if (allocated_ > peak_.bytes) {
    peak_ = {allocated_, changes_.size()};
    at_peak_ = current_;
  }
}

void AllocatorTrace::settle_now() {
  const auto stats = stats_of(device_);
  std::lock_guard lock(mutex_);
  settle(stats);
}

void AllocatorTrace::allocated_one(const TraceEntry& entry, BlockChange& change) {
  requested_ += change.bytes;
  change.owner = static_cast<std::uint32_t>(owners_.size());
  change.op = ops_[layer::current()];
  owners_.push_back({category_now, change.op, stream(entry.stream_), false, {}, {}});
  unsettled_ = true;
}

void AllocatorTrace::on_event(const TraceEntry& entry) {
  if (entry.device_ != device_ || entry.action_ == TraceEntry::SNAPSHOT) return;
  const auto stats = stats_of(device_);
  std::lock_guard lock(mutex_);
  settle(stats);
  BlockChange change;
  change.action = action_of(entry.action_);
  change.address = static_cast<std::int64_t>(entry.addr_);
  change.bytes = static_cast<Bytes>(entry.size_);
  change.time = platform().now();
  change.stream = stream(entry.stream_);
  switch (change.action) {
    case AllocatorAction::alloc:
      allocated_one(entry, change);
      break;
    case AllocatorAction::free_requested:
      requested_ -= change.bytes;
      if (const auto* block = block_at(change.address)) {
        change.op = owners_[block->owner].op;
        allocated_ -= block->bytes;
        current_[owners_[block->owner].category] -= block->bytes;
      }
      break;
    case AllocatorAction::free_completed:
      if (const auto* block = block_at(change.address)) {
        change.op = owners_[block->owner].op;
        active_ -= block->bytes;
      }
      break;
    case AllocatorAction::segment_alloc:
    case AllocatorAction::segment_map:
      reserved_ += change.bytes;
      break;
    case AllocatorAction::segment_free:
    case AllocatorAction::segment_unmap:
      reserved_ -= change.bytes;
      break;
    case AllocatorAction::oom:
      break;
  }
  now_.apply(change);
  changes_.push_back(change);
  samples_.push_back({change.time, allocated_, active_, reserved_});
}

// The first tensor that an operator returns on a block is what the block is for.
void AllocatorTrace::describe(const at::Tensor& tensor) {
  std::lock_guard lock(mutex_);
  const auto* block = block_at(reinterpret_cast<std::int64_t>(tensor.storage().data()));
  if (block == nullptr || owners_[block->owner].described) return;
  Owner& owner = owners_[block->owner];
  owner.described = true;
  owner.shape = tensor.sizes().vec();
  owner.dtype = c10::toString(tensor.scalar_type());
}

void AllocatorTrace::begin_step() {
  settle_now();
  name_workspaces();
  std::lock_guard lock(mutex_);
  changes_.clear();
  samples_.clear();
  // Owners of freed blocks are no longer needed.
  std::vector<Owner> kept;
  for (auto& [address, block] : now_.blocks()) {
    kept.push_back(owners_[block.owner]);
    block.owner = static_cast<std::uint32_t>(kept.size() - 1);
  }
  owners_ = std::move(kept);
  before_ = now_;
  peak_ = {allocated_, 0};
  at_peak_ = current_;
}

// cuBLAS workspaces are made by PyTorch inside whichever operator multiplies first; their owner
// knows their addresses.
void AllocatorTrace::name_workspaces() {
  for (auto* all : {&at::cuda::cublas_handle_stream_to_workspace(),
                    &at::cuda::cublaslt_handle_stream_to_workspace()}) {
    std::shared_lock lock(all->mutex);
    std::lock_guard mine(mutex_);
    for (const auto& [key, memory] : all->map) move(memory.get(), "workspaces");
  }
}

void AllocatorTrace::move(const void* memory, const char* category) {
  const auto* block = block_at(reinterpret_cast<std::int64_t>(memory));
  if (block == nullptr) return;
  Owner& owner = owners_[block->owner];
  current_[owner.category] -= block->bytes;
  current_[category] += block->bytes;
  owner.category = category;
}

std::map<std::string, Category> AllocatorTrace::categories() {
  settle_now();
  name_workspaces();
  std::lock_guard lock(mutex_);
  std::map<std::string, Category> all;
  for (const auto& [name, bytes] : at_peak_) all[name].peak_share = bytes;
  for (const auto& [name, bytes] : current_) all[name].end = bytes;
  std::erase_if(all,
                [](const auto& one) { return one.second.peak_share == 0 && one.second.end == 0; });
  return all;
}

}  // namespace tidemark
