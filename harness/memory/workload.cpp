#include "harness/memory/workload.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <unordered_map>

namespace tidemark {
namespace {

using What = AllocatorRequest::What;

bool gives_back(AllocatorAction a) {
  return a == AllocatorAction::segment_free || a == AllocatorAction::segment_unmap;
}
bool takes(AllocatorAction a) {
  return a == AllocatorAction::segment_alloc || a == AllocatorAction::segment_map;
}

class Reading {
 public:
  Reading(const Snapshot& snapshot, std::size_t device, const MemoryBefore& before)
      : s_(snapshot), trace_(snapshot.traces[device]), before_(before) {
    levels_.reserve(trace_.size() + 1);
    Bytes level = 0;
    for (const Segment& segment : before.segments) level += segment.total_size;
    levels_.push_back(level);
    for (const AllocatorEvent& e : trace_) {
      if (takes(e.action)) level += e.size;
      if (gives_back(e.action)) level -= e.size;
      levels_.push_back(level);
    }
    highest_ = std::ranges::max(levels_);
  }

  Workload run() {
    for (std::size_t i = 0; i < trace_.size();) i = step(i);
    return std::move(out_);
  }

 private:
  std::size_t step(std::size_t i) {
    const AllocatorEvent& e = trace_[i];
    switch (e.action) {
      case AllocatorAction::alloc: {
        const Home& home = before_.homes.at(i);
        blocks_[e.address] = i;
        add(What::take, i, i).pool = home.pool;
        last_take_ = i;
        return i + 1;
      }
      case AllocatorAction::free_requested:
        freed_[e.address] = {i, out_.requests.size()};
        add(What::free, i, block_of(e));
        return i + 1;
      case AllocatorAction::free_completed:
        come_back(i);
        return i + 1;
      case AllocatorAction::segment_free:
      case AllocatorAction::segment_unmap:
        return give_back(i);
      case AllocatorAction::oom:
        add(What::refused, i, SIZE_MAX);
        return i + 1;
      case AllocatorAction::segment_alloc:
      case AllocatorAction::segment_map:
      case AllocatorAction::snapshot:
        return i + 1;
    }
    return i + 1;
  }

  std::size_t block_of(const AllocatorEvent& e) const {
    const auto block = blocks_.find(e.address);
    return block == blocks_.end() ? SIZE_MAX : block->second;
  }

  AllocatorRequest& add(What what, std::size_t event, std::size_t block) {
    const AllocatorEvent& e = trace_[event];
    return out_.requests.emplace_back(
        AllocatorRequest{what, event, block, e.address, e.size, e.stream, {}, e.stack});
  }

  /// A block that no other stream used is back in the event after, or with the next allocation.
  void come_back(std::size_t i) {
    const AllocatorEvent& e = trace_[i];
    if (const auto freed = freed_.find(e.address); freed != freed_.end()) {
      if (last_take_ < freed->second.event || last_take_ == SIZE_MAX)
        out_.requests[freed->second.request].what = What::come_back;
      else
        add(What::come_back, i, block_of(e));
      freed_.erase(freed);
    } else {
      add(What::come_back, i, block_of(e));
    }
    blocks_.erase(e.address);
  }

  /// All segments that are given back together.
  std::size_t give_back(std::size_t first) {
    std::size_t next = first;
    for (; next < trace_.size() && gives_back(trace_[next].action); ++next)
      if (before_.homes.at(next).pool != PoolId{})
        throw SnapshotError(
            fmt::format("event {} gives back memory of a private pool, and what else of that pool "
                        "went with it is not recorded",
                        next));
    const bool own = next < trace_.size() &&
                     (takes(trace_[next].action) || trace_[next].action == AllocatorAction::oom);
    if (own && !is_emptied(first, next)) {
      ++out_.retries;
      force(first);
    } else {
      add(What::empty_cache, first, SIZE_MAX);
    }
    return next;
  }

  /// Of segments that were given back just before the device gave others: true if
  /// torch.cuda.empty_cache() did it.
  bool is_emptied(std::size_t first, std::size_t next) const {
    for (const std::uint32_t at : s_.stacks[trace_[first].stack]) {
      const std::string& function = s_.frames[at].function;
      if (function == "empty_cache" || function.find("emptyCache") != std::string::npos)
        return true;
    }
    if (trace_[first].stack != 0) return false;
    if (trace_[next].action == AllocatorAction::oom) return false;  // it gives back all before
    // A device that had more at another moment was not full.
    if (levels_[first] + trace_[next].size <= highest_) return true;
    throw SnapshotError(fmt::format(
        "gives back {} from event {} on, for room or by torch.cuda.empty_cache(): which of the two "
        "is not recorded, so that another setting's requests are not known (record with stacks)",
        next - first == 1 ? "a segment" : fmt::format("{} segments", next - first), first));
  }

  /// A retry waits for all frees first: those that came back since the last allocation.
  void force(std::size_t first) {
    while (first > 0 && trace_[first - 1].action == AllocatorAction::free_completed) {
      --first;
      const bool at_once = first > 0 &&
                           trace_[first - 1].action == AllocatorAction::free_requested &&
                           trace_[first - 1].address == trace_[first].address;
      if (at_once) return;  // no stream used it
      ++out_.forced;
      out_.forced_bytes += trace_[first].size;
    }
  }

  struct Freed {
    std::size_t event, request;
  };
  const Snapshot& s_;
  const std::vector<AllocatorEvent>& trace_;
  const MemoryBefore& before_;
  std::vector<Bytes> levels_;  // reserved before each event, and at the end
  Bytes highest_ = 0;
  std::size_t last_take_ = SIZE_MAX;                      // the latest allocation
  std::unordered_map<std::int64_t, std::size_t> blocks_;  // by address: the allocation
  std::unordered_map<std::int64_t, Freed> freed_;         // by address
  Workload out_;
};

}  // namespace

Workload workload_of(const Snapshot& snapshot, std::size_t device, const MemoryBefore& before) {
  return Reading(snapshot, device, before).run();
}

}  // namespace tidemark
