// The events of a process.
#pragma once

#include <memory>
#include <vector>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/shared.h"

namespace tidemark::device {

// An event that other processes have too: the entry of its owner's table says which record is the
// latest.
struct SharedEvent {
  SharedHandle handle;
  SharedEntry* entry = nullptr;
  std::shared_ptr<SharingProcess> owner = nullptr;  // null: this process
  Stream* others = nullptr;  // in the vector clocks: the records of other processes
  std::uint64_t seen = 0;    // of the records that were carried out

  ~SharedEvent() {
    if (!owner) unshare(handle);
  }
};

struct Event {
  unsigned flags = 0;
  int device = 0;
  std::uint32_t generation = 0;
  bool alive = false, recorded = false;
  Mark record = {};
  Stream* holder = nullptr;                        // a stream that holds the record (control.h)
  std::uint64_t held = 0;                          // its number there
  std::size_t deferred = 0;                        // records that are to be carried out
  std::shared_ptr<SharedEvent> shared = nullptr;   // of cudaEventInterprocess
  std::shared_ptr<Capture> capture = nullptr;      // that the latest record belongs to,
  std::vector<CUgraphNode_st*> capture_ends = {};  // and what it comes after there
};

// Handles count up and carry a generation, so that a destroyed event is an error and not another
// event.
struct EventTable {
  std::vector<Event> events;
  std::vector<std::uint32_t> unused;

  Event* find(EventHandle handle) {
    const auto value = reinterpret_cast<std::uintptr_t>(handle);
    const std::uintptr_t slot = ((value & 0xffffffffu) >> 4) - 1;
    if (value % 16 != 8 || slot >= events.size()) return nullptr;
    Event& event = events[slot];
    return event.alive && event.generation == value >> 32 ? &event : nullptr;
  }

  EventHandle add(unsigned flags, int device, std::shared_ptr<SharedEvent> shared) {
    if (unused.empty()) {
      unused.push_back(static_cast<std::uint32_t>(events.size()));
      events.emplace_back();
    }
    const std::uint32_t slot = unused.back();
    unused.pop_back();
    Event& made = events[slot];
    made = {.flags = flags,
            .device = device,
            .generation = made.generation,
            .alive = true,
            .shared = std::move(shared)};
    return reinterpret_cast<EventHandle>(std::uintptr_t{made.generation} << 32 |
                                         (std::uintptr_t{slot} + 1) << 4 | 8);
  }
};

inline EventTable& table() { return immortal<EventTable>(); }

}  // namespace tidemark::device
