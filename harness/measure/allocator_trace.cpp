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

using TraceEntry = recorder::AllocatorEntry;
namespace allocator = c10::cuda::CUDACachingAllocator;

std::atomic<MemoryKind> category_now{MemoryKind::activations};

AllocatorTrace* current_trace() { return dynamic_cast<AllocatorTrace*>(recorder::following()); }

}  // namespace

MemoryKind current_category() { return category_now; }
void set_current_category(MemoryKind kind) { category_now = kind; }

void change_category(const at::Tensor& tensor, MemoryKind kind) {
  AllocatorTrace* trace = current_trace();
  if (trace == nullptr) return;
  trace->settle_now();
  const std::lock_guard lock(trace->mutex);
  trace->move(tensor.storage().data(), kind);
}

void on_returned(const at::Tensor& tensor) {
  if (AllocatorTrace* trace = current_trace()) trace->describe(tensor);
}

AllocatorTrace::AllocatorTrace(int device) : device_(device) {
  static_cast<void>(ops_[""]);  // place 0: none
  if (recorder::stats_of(static_cast<std::size_t>(device)).reserved_bytes[0].current != 0)
    take_stock();
  recorder::follow(this);
}

AllocatorTrace::~AllocatorTrace() { recorder::follow(nullptr); }

// Reads the blocks that existed before this trace, from a snapshot.
void AllocatorTrace::take_stock() {
  owners_.push_back({MemoryKind::before, 0, true, {}, {}});
  for (const auto& segment : allocator::snapshot({0, 0}).segments) {
    if (segment.device != device_) continue;
    BlockChange change;
    change.action =
        segment.is_expandable ? AllocatorAction::segment_map : AllocatorAction::segment_alloc;
    change.address = static_cast<std::int64_t>(segment.address);
    change.size = static_cast<Bytes>(segment.total_size);
    change.stream = stream(segment.stream);
    now_.apply(change);
    now_.set_pool(change.address, !segment.is_large);
    reserved_ += change.size;
    for (const auto& block : segment.blocks) {
      const auto bytes = static_cast<Bytes>(block.size);
      if (block.active || block.allocated) {
        change.action = AllocatorAction::alloc;
        change.size = static_cast<Bytes>(block.requested_size);
        change.block = bytes;
        now_.apply(change);
        active_ += bytes;
        if (block.allocated) {
          allocated_ += bytes;
          current_[MemoryKind::before] += bytes;
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

std::uint32_t AllocatorTrace::stream(void* handle) {
  const auto [place, added] =
      stream_places_.try_emplace(handle, static_cast<std::uint32_t>(streams_.size()));
  if (added) streams_.push_back(platform().stream_name(handle));
  return place->second;
}

BlockLayout::Block* AllocatorTrace::block_at(std::int64_t address) {
  const auto block = now_.blocks().find(address);
  return block == now_.blocks().end() ? nullptr : &block->second;
}

void AllocatorTrace::on_block(std::size_t device, Bytes bytes) {
  if (static_cast<int>(device) != device_) return;
  BlockChange& change = changes_.back();
  change.block = bytes;
  block_at(change.address)->size = bytes;
  allocated_ += bytes;
  active_ += bytes;
  current_[owners_[change.owner].category] += bytes;
  samples_.back() = {change.time, allocated_, active_, reserved_};
  if (allocated_ > peak_.bytes) {
    peak_ = {allocated_, changes_.size()};
    at_peak_ = current_;
  }
}

void AllocatorTrace::allocated_one(const TraceEntry& entry, BlockChange& change) {
  change.owner = static_cast<std::uint32_t>(owners_.size());
  change.stack = ops_[layer::current()];
  owners_.push_back({category_now, stream(entry.stream_), false, {}, {}});
}

void AllocatorTrace::on_event(const TraceEntry& entry) {
  if (entry.device_ != device_) return;
  BlockChange change;
  change.action = static_cast<AllocatorAction>(entry.action_);
  change.address = static_cast<std::int64_t>(entry.addr_);
  change.size = static_cast<Bytes>(entry.size_);
  change.time = platform().now();
  change.stream = stream(entry.stream_);
  switch (change.action) {
    case AllocatorAction::alloc:
      allocated_one(entry, change);
      break;
    case AllocatorAction::free_requested:
      if (const auto* block = block_at(change.address)) {
        change.stack = block->stack;
        allocated_ -= block->size;
        current_[owners_[block->owner].category] -= block->size;
      }
      break;
    case AllocatorAction::free_completed:
      if (const auto* block = block_at(change.address)) {
        change.stack = block->stack;
        active_ -= block->size;
      }
      break;
    case AllocatorAction::segment_alloc:
    case AllocatorAction::segment_map:
      reserved_ += change.size;
      break;
    case AllocatorAction::segment_free:
    case AllocatorAction::segment_unmap:
      reserved_ -= change.size;
      break;
    case AllocatorAction::snapshot:
    case AllocatorAction::oom:
      break;
  }
  now_.apply(change);
  changes_.push_back(change);
  samples_.push_back({change.time, allocated_, active_, reserved_});
}

// The first tensor that an operator returns on a block is what the block is for.
void AllocatorTrace::describe(const at::Tensor& tensor) {
  std::lock_guard lock(mutex);
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
  std::lock_guard lock(mutex);
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
    std::lock_guard mine(this->mutex);
    for (const auto& [key, memory] : all->map) move(memory.get(), MemoryKind::workspaces);
  }
}

void AllocatorTrace::move(const void* memory, MemoryKind kind) {
  const auto* block = block_at(reinterpret_cast<std::int64_t>(memory));
  if (block == nullptr) return;
  Owner& owner = owners_[block->owner];
  current_[owner.category] -= block->size;
  current_[kind] += block->size;
  owner.category = kind;
}

std::map<MemoryKind, Category> AllocatorTrace::categories() {
  settle_now();
  name_workspaces();
  std::lock_guard lock(mutex);
  std::map<MemoryKind, Category> all;
  for (const auto& [name, bytes] : at_peak_) all[name].peak_share = bytes;
  for (const auto& [name, bytes] : current_) all[name].end = bytes;
  std::erase_if(all,
                [](const auto& one) { return one.second.peak_share == 0 && one.second.end == 0; });
  return all;
}

}  // namespace tidemark
