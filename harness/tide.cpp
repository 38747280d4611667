#include "harness/tide.h"

#include <c10/cuda/CUDACachingAllocator.h>

#include <atomic>
#include <mutex>
#include <shared_mutex>

#include "harness/platform.h"
#include "harness/workspaces.h"

namespace tidemark {
namespace {

using c10::CachingDeviceAllocator::TraceEntry;
namespace allocator = c10::cuda::CUDACachingAllocator;

std::atomic<const char*> category{"activations"};
std::atomic<Tide*> following{nullptr};

Bytes current_of(const c10::CachingAllocator::StatArray& stat) { return stat[0].current; }

}  // namespace

const char* current_category() { return category; }
void set_current_category(const char* name) { category = name; }

// The allocator calls this under its own (recursive) lock, and its trackers cannot be detached: one
// for the process.
void on_trace(const TraceEntry& entry) {
  if (Tide* tide = following) tide->on_event(entry);
}

Tide::Tide(int device) : device_(device) {
  static std::once_flag attached;
  std::call_once(attached, [] { allocator::attachAllocatorTraceTracker(on_trace); });
  known_ = peak_ = allocated();
  if (known_ != 0) current_["before"] = known_;
  at_peak_ = current_;
  following = this;
}

Tide::~Tide() { following = nullptr; }

Bytes Tide::allocated() const {
  return current_of(
      allocator::getDeviceStats(static_cast<c10::DeviceIndex>(device_)).allocated_bytes);
}

// An ALLOC event comes before the statistics count its block, so its true size shows at the event
// after it.
void Tide::settle(Bytes freed) {
  Bytes now = allocated();
  if (unsettled_ != 0) {
    auto& block = live_[unsettled_];
    block.bytes = now + freed - known_;
    known_ += block.bytes;
    current_[block.category] += block.bytes;
    unsettled_ = 0;
    if (known_ > peak_) {
      peak_ = known_;
      at_peak_ = current_;
    }
  }
}

void Tide::on_event(const TraceEntry& entry) {
  if (entry.device_ != device_) return;
  if (entry.action_ == TraceEntry::ALLOC) held_ += static_cast<Bytes>(entry.size_);
  if (entry.action_ == TraceEntry::FREE_REQUESTED) {
    held_ -= static_cast<Bytes>(entry.size_);
    // The statistics are without this block already. Freed right after its allocation, its size was
    // never seen: what the allocator rounds to is all there is to go by, unless it made the peak,
    // which counts its unsplit remainder, too.
    if (unsettled_ == entry.addr_) {
      auto& block = live_[unsettled_];
      block.bytes = static_cast<Bytes>((entry.size_ + 511) / 512 * 512);
      const Bytes peak =
          allocator::getDeviceStats(static_cast<c10::DeviceIndex>(device_)).allocated_bytes[0].peak;
      if (peak > peak_) {
        block.bytes = std::max(block.bytes, peak - known_);
        current_[block.category] += block.bytes;
        peak_ = known_ + block.bytes;
        at_peak_ = current_;
        current_[block.category] -= block.bytes;
      }
      unsettled_ = 0;
      live_.erase(entry.addr_);
    } else if (auto found = live_.find(entry.addr_); found != live_.end()) {
      settle(found->second.bytes);
      known_ -= found->second.bytes;
      current_[found->second.category] -= found->second.bytes;
      live_.erase(found);
    } else {
      // Allocated before we followed: its size is what the figure has lost.
      Bytes lost = known_ - allocated();
      known_ -= lost;
      current_["before"] -= lost;
    }
  } else {
    settle(0);
    if (entry.action_ == TraceEntry::ALLOC) {
      live_[entry.addr_] = {static_cast<Bytes>(entry.size_), category};
      unsettled_ = entry.addr_;
    }
  }
  auto stats = allocator::getDeviceStats(static_cast<c10::DeviceIndex>(device_));
  samples_.push_back({platform().now(), current_of(stats.allocated_bytes),
                      current_of(stats.active_bytes), current_of(stats.reserved_bytes)});
}

void Tide::begin_step() {
  settle(0);
  peak_ = known_;
  at_peak_ = current_;
  samples_.clear();
}

// cuBLAS workspaces are made by PyTorch inside whichever operator multiplies first; their owner
// knows their addresses.
void Tide::name_workspaces() {
  for (auto* all : {&at::cuda::cublas_handle_stream_to_workspace(),
                    &at::cuda::cublaslt_handle_stream_to_workspace()}) {
    std::shared_lock lock(all->mutex);
    for (const auto& [key, memory] : all->map) {
      auto found = live_.find(reinterpret_cast<std::size_t>(memory.get()));
      if (found == live_.end() || std::string_view(found->second.category) == "workspaces")
        continue;
      current_[found->second.category] -= found->second.bytes;
      current_["workspaces"] += found->second.bytes;
      found->second.category = "workspaces";
    }
  }
}

std::vector<Category> Tide::categories() {
  settle(0);
  name_workspaces();
  std::vector<Category> result;
  std::map<std::string, Category> merged;
  for (const auto& [name, bytes] : at_peak_) merged[name].peak_share = bytes;
  for (const auto& [name, bytes] : current_) merged[name].end = bytes;
  for (auto& [name, entry] : merged)
    if (entry.peak_share != 0 || entry.end != 0)
      result.push_back({name, entry.peak_share, entry.end});
  return result;
}

std::vector<Sample> Tide::timeline() const {
  // Thinned to buckets that keep the highest sample of each statistic, so that no peak is lost.
  constexpr std::size_t kMost = 1500;
  if (samples_.size() <= kMost) return samples_;
  std::vector<Sample> thin;
  const std::size_t bucket = samples_.size() * 4 / kMost + 1;
  for (std::size_t begin = 0; begin < samples_.size(); begin += bucket) {
    const std::size_t end = std::min(begin + bucket, samples_.size());
    std::vector<std::size_t> keep{begin, end - 1};
    for (auto member : {&Sample::allocated, &Sample::active, &Sample::reserved}) {
      std::size_t highest = begin;
      for (std::size_t i = begin; i < end; ++i)
        if (samples_[i].*member > samples_[highest].*member) highest = i;
      keep.push_back(highest);
    }
    std::sort(keep.begin(), keep.end());
    keep.erase(std::unique(keep.begin(), keep.end()), keep.end());
    for (auto i : keep) thin.push_back(samples_[i]);
  }
  return thin;
}

}  // namespace tidemark
