#include "harness/cli/replayed_allocator.h"

#include <c10/core/AllocatorConfig.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAStream.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "harness/device/platform.h"
#include "harness/memory/error.h"
#include "harness/record/units.h"

namespace tidemark {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;
constexpr std::size_t kMostStreams = 32;
constexpr std::int64_t kGranule = 2 << 20;

ReplayedAllocator* only = nullptr;  // the tracker cannot be taken away again

std::int64_t rounded(std::int64_t bytes) { return (bytes + kGranule - 1) / kGranule * kGranule; }

}  // namespace

std::string SegmentEvent::text() const {
  return fmt::format("{} of {} bytes, stream {:#x}{}", name_of(action), size, stream,
                     address ? fmt::format(", at {}", *address) : "");
}

ReplayedAllocator::ReplayedAllocator(const std::vector<Segment>& before,
                                     const std::vector<AllocatorEvent>& trace) {
  std::set<std::int64_t> streams;
  std::vector<std::pair<std::int64_t, std::int64_t>> ranges;  // begin, end
  for (const Segment& s : before) {
    streams.insert(s.stream);
    ranges.emplace_back(s.address, s.address + s.total_size);
  }
  for (const AllocatorEvent& e : trace) {
    const bool takes =
        e.action == AllocatorAction::segment_alloc || e.action == AllocatorAction::segment_map;
    if (takes) ranges.emplace_back(e.address, e.address + e.size);
    if (takes || of_block(e.action) || e.action == AllocatorAction::oom) streams.insert(e.stream);
  }
  if (streams.size() > kMostStreams)
    throw SnapshotError(
        fmt::format("has {} streams; at most {} are replayed", streams.size(), kMostStreams));
  // Addresses matter by their order alone: what lies between the ranges is left out.
  std::ranges::sort(ranges);
  std::int64_t bytes = 0, end = 0;
  for (const auto& [from, to] : ranges) {
    if (offsets_.empty() || from >= end) offsets_[from] = bytes = rounded(bytes), end = from;
    bytes += std::max<std::int64_t>(0, to - end);
    end = std::max(end, to);
  }
  c10::cuda::device_count_ensure_non_zero();
  allocator::init(1);
  platform().begin("instant", Mode::shapes);
  set_capacity(2 * rounded(bytes) + (std::int64_t{1} << 30));
  for (const std::int64_t id : streams) {
    const cudaStream_t stream = id == 0 ? c10::cuda::getDefaultCUDAStream().stream()
                                        : c10::cuda::getStreamFromPool(false).stream();
    streams_[id] = stream, stream_ids_[stream] = id;
  }
  set();
  only = this;
  allocator::attachAllocatorTraceTracker([](const Entry& entry) {
    if (only != nullptr) only->note(entry);
  });
}

ReplayedAllocator::~ReplayedAllocator() { only = nullptr; }

void ReplayedAllocator::use(const std::string& settings) {
  settings_ = settings;
  set();
}

void ReplayedAllocator::set() {
  try {
    c10::CachingAllocator::setAllocatorSettings(
        fmt::format("expandable_segments:{}{}{}", expandable_ ? "True" : "False",
                    settings_.empty() ? "" : ",", settings_));
  } catch (const c10::Error&) {
    throw SnapshotError(
        fmt::format("has allocator settings that this PyTorch does not take: {}", settings_));
  }
}

void* ReplayedAllocator::take(const Request& request) {
  current_ = request;
  if (request.expandable != expandable_) {
    expandable_ = request.expandable;
    set();
  }
  placed_ = 0;
  if (wanted_ && !expandable_) {
    const auto range = std::prev(offsets_.upper_bound(*wanted_));
    placed_ = virtual_device()->place_next(range->second + *wanted_ - range->first);
    if (placed_ == 0)
      throw SnapshotError(
          fmt::format("has a segment at an address that cannot be had ({})", *wanted_));
  }
  const auto bytes = static_cast<std::size_t>(request.bytes);
  const cudaStream_t stream = streams_.at(request.stream);
  void* block = nullptr;
  if (request.pool == PoolId{}) {
    block = allocator::raw_alloc_with_stream(bytes, stream);
  } else {
    const auto [known, added] = pools_.try_emplace(request.pool);
    auto& id = known->second;
    if (added) {
      id = {0, pools_.size()};
      allocator::createOrIncrefPool(0, id);
    }
    allocator::beginAllocateToPool(0, id, [](cudaStream_t) { return true; });
    block = allocator::raw_alloc_with_stream(bytes, stream);
    allocator::endAllocateToPool(0, id);
    allocator::releasePool(0, id);
  }
  wanted_.reset();
  return block;
}

void ReplayedAllocator::give(void* block) { allocator::raw_delete(block); }

void ReplayedAllocator::hold(std::size_t holders) {
  holders_.resize(holders);
  for (cudaStream_t& one : holders_) {
    if (cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking) != cudaSuccess)
      throw SnapshotError("has frees that wait for more streams than can be made");
    virtual_device()->hold_records(one);
  }
}

void ReplayedAllocator::give_later(void* block, std::size_t holder) {
  const c10::Device device(c10::kCUDA, 0);
  const c10::DataPtr data(block, block, allocator::get()->raw_deleter(), device);  // frees it
  allocator::recordStream(data, c10::cuda::getStreamFromExternal(holders_.at(holder), 0));
}

void ReplayedAllocator::come_back(std::size_t holder, std::uint64_t number) {
  virtual_device()->release_records(holders_.at(holder), number);
}

void ReplayedAllocator::limit(Bytes capacity) {
  if (!set_capacity(capacity > 0 ? capacity : kNoLimit))
    throw SnapshotError(
        fmt::format("has {} from before its trace, more than the {} that the allocator can have",
                    bytes_text(figures().reserved), bytes_text(capacity)));
  allocator::resetPeakStats(0);
}

void ReplayedAllocator::set_fraction(double fraction) { allocator::setMemoryFraction(fraction, 0); }

ReplayedAllocator::Figures ReplayedAllocator::figures() const {
  const auto stats = allocator::getDeviceStats(0);
  return {stats.reserved_bytes[0].current, stats.reserved_bytes[0].peak,
          stats.allocated_bytes[0].peak, stats.active_bytes[0].peak, stats.num_alloc_retries};
}

Bytes ReplayedAllocator::device_free() const {
  std::size_t free = 0, total = 0;
  return cudaMemGetInfo(&free, &total) == cudaSuccess ? static_cast<Bytes>(free) : 0;
}

void ReplayedAllocator::release() { allocator::emptyCache(); }

std::optional<std::int64_t> ReplayedAllocator::recorded(const void* pointer) const {
  const auto address = reinterpret_cast<std::uintptr_t>(pointer);
  const auto after = areas_.upper_bound(address);
  if (after == areas_.begin()) return {};
  const auto& [begin, area] = *std::prev(after);
  if (!area.recorded) return {};
  return *area.recorded + static_cast<std::int64_t>(address - begin);
}

std::map<std::int64_t, std::int64_t> ReplayedAllocator::segments() const {
  std::map<std::int64_t, std::int64_t> out;
  for (const auto& segment : allocator::snapshot().segments)
    out[recorded(reinterpret_cast<void*>(segment.address)).value_or(-1)] =
        static_cast<std::int64_t>(segment.total_size);
  return out;
}

/// The memory that an expandable segment of the current request has mapped, or the end.
ReplayedAllocator::Areas::iterator ReplayedAllocator::mapped() {
  return std::ranges::find_if(areas_, [&](const auto& each) {
    const Request& r = each.second.made_by;
    return r.expandable && r.stream == current_.stream && r.pool == current_.pool &&
           (r.bytes <= kLargestSmall) == (current_.bytes <= kLargestSmall);
  });
}

void ReplayedAllocator::note(const Entry& entry) {
  const auto here = static_cast<std::uintptr_t>(entry.addr_);
  const auto size = static_cast<std::int64_t>(entry.size_);
  SegmentEvent event{AllocatorAction::segment_alloc,
                     {},
                     size,
                     stream_ids_.at(static_cast<cudaStream_t>(entry.stream_))};
  switch (entry.action_) {
    case Entry::SEGMENT_ALLOC:
      areas_[here] = {here == placed_ ? wanted_ : std::nullopt, size, current_};
      break;
    case Entry::SEGMENT_MAP:
      event.action = AllocatorAction::segment_map;
      if (const auto area = mapped(); area != areas_.end())
        area->second.mapped += size;
      else
        areas_[here] = {wanted_, size, current_};
      break;
    case Entry::SEGMENT_FREE:
    case Entry::SEGMENT_UNMAP:
      event.action = entry.action_ == Entry::SEGMENT_FREE ? AllocatorAction::segment_free
                                                          : AllocatorAction::segment_unmap;
      break;
    default:
      return;
  }
  event.address = recorded(reinterpret_cast<void*>(here));
  made_.push_back(event);
  if (event.action == AllocatorAction::segment_alloc ||
      event.action == AllocatorAction::segment_map)
    return;
  const auto area = std::prev(areas_.upper_bound(here));
  if ((area->second.mapped -= size) == 0) areas_.erase(area);
}

}  // namespace tidemark
