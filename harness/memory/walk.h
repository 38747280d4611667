// A walk through the trace of one device: what is alive after each event.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <vector>

#include "harness/memory/snapshot.h"

namespace tidemark {

/// A block that was there before the trace's first event: it is freed in the trace or there at its
/// end, and was not allocated in it.
struct BlockBefore {
  std::int64_t address = 0;
  Bytes bytes = 0;  // as requested
  Bytes size = 0;   // of the allocator's block; 0: not known, since it is not there at the end
  std::uint32_t stack = 0;  // of its allocation, where the list of blocks at the end has it
  bool freed = false;       // the program had freed it, and it waited for another stream
};
/// Those of a device, by address.
std::vector<BlockBefore> blocks_before(const Snapshot& snapshot, std::size_t device);

/// Blocks from before the trace are not known. A block is named by the place of its allocation in
/// the trace.
class TraceWalk {
 public:
  explicit TraceWalk(const std::vector<AllocatorEvent>& trace) : trace_(trace) {}

  /// Takes the next event; false where there is none.
  bool next();
  /// The place of the event that was taken last.
  std::size_t place() const { return taken_ - 1; }
  const AllocatorEvent& event() const { return trace_[place()]; }

  /// The allocations and the completed frees that were taken.
  ProgramPhase::Moment moment() const { return moment_; }
  /// True if the last event moved it.
  bool moved() const {
    return event().action == AllocatorAction::alloc ||
           event().action == AllocatorAction::free_completed;
  }

  std::int64_t active() const { return active_; }  // bytes as requested
  /// Blocks by address.
  const std::map<std::int64_t, std::size_t>& live() const { return live_; }
  bool holds(std::size_t block) const;
  /// The live block that begins at the address, and the one that the address is in.
  std::optional<std::size_t> block_of(std::int64_t address) const;
  std::optional<std::size_t> block_at(std::int64_t address) const;
  bool is_freed(std::int64_t address) const { return freed_.contains(address); }
  /// Live blocks that the program has freed and the allocator has not.
  std::vector<std::size_t> freed() const;

 private:
  const std::vector<AllocatorEvent>& trace_;
  std::size_t taken_ = 0;
  ProgramPhase::Moment moment_;
  std::int64_t active_ = 0;
  std::map<std::int64_t, std::size_t> live_;
  std::set<std::int64_t> freed_;  // addresses
};

/// Calls see(allocation, label, walk) for each of the labels that is of a block of the device.
/// Returns the walk at the end of the device's trace.
TraceWalk each_label(const Snapshot& snapshot, const auto& labels, std::size_t device, auto see) {
  static const std::vector<AllocatorEvent> none;
  const auto& trace = device < snapshot.traces.size() ? snapshot.traces[device] : none;
  TraceWalk walk(trace);
  auto label = labels.begin();
  while (walk.next()) {
    if (walk.event().action != AllocatorAction::alloc) continue;
    for (; label != labels.end() && label->allocations <= walk.moment().allocations; ++label)
      if (static_cast<std::size_t>(label->device) == device)
        if (const auto block = walk.block_at(label->address)) see(&trace[*block], *label, walk);
  }
  return walk;
}

}  // namespace tidemark
