// Analysis of a snapshot: the peak and what was alive there, frees that wait, fragmentation; and
// how two differ.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/memory/snapshot.h"
#include "harness/record/program.h"

namespace tidemark {

/// Bytes as requested, as the trace counts them; reserved as taken from the device.
struct Holdings {
  std::int64_t allocated = 0, active = 0, reserved = 0;
};

/// Allocations of one place in the program and one size.
struct Site {
  std::string site;
  std::int64_t size = 0;
  std::int64_t count = 0, bytes = 0;  // at the peak
  std::int64_t allocations = 0;       // in the whole trace
  double lifetime_us = 0;             // of all that ended
  std::int64_t ended = 0;
  double mean_us() const { return ended == 0 ? 0 : lifetime_us / static_cast<double>(ended); }
  Site& operator+=(const Site& other);  // of the same place
};

/// Blocks of one kind that were alive at the peak, allocated in one module and at one place.
using Part = AlivePart;

/// The object of a program that holds blocks: "`total` in main (train.py:9)"; of a cycle of
/// references what is on its way, or nothing.
struct Holder {
  std::string name;
  bool is_cycle = false;             // Python's collector frees it
  bool is_work = false;              // of a process group: PyTorch's watchdog lets go of it
  std::int64_t held = 0, asked = 0;  // blocks, of so many whose holder is known; 0: all
  bool is_known() const { return is_freed_later() || !name.empty(); }
  bool is_freed_later() const { return is_cycle || is_work; }
  std::string text() const;
  auto operator<=>(const Holder&) const = default;
};

/// Memory that a program may do without, at one moment (wastes.h).
struct Waste {
  std::string name;
  std::optional<std::int64_t> bytes;  // none: not known, since the moment has not come
  std::int64_t active = 0;            // in all, at that moment
  std::vector<Part> parts;            // their bytes sum to `bytes`
  Holder holder = {};                 // of most of them, where it was asked
  std::string process = {};           // of several; empty: the place of the highest peak
  std::size_t device = 0;
  bool several = false;  // the process has several devices
};

/// The highest of a training step's phases of one name.
struct PhasePeak {
  std::int64_t step = 0;
  std::string name;
  Holdings peak;  // each of the three by itself; the level at which a phase begins counts
};

/// An allocation that failed, after the allocator had given back what it could.
struct OutOfMemory {
  std::string site, module;
  std::int64_t wanted = 0, device_free = 0;
  Holdings held;                          // as requested
  std::optional<RefusedRequest> request;  // where a record has it
  bool pools = false;       // the allocator has private ones, and what of its free memory is theirs
                            // is not known
  bool at_peak = false;     // the blocks are those of the peak
  std::vector<Part> parts;  // where the file has labels
  std::string process;
  std::size_t device = 0;
  bool several = false;   // the process has several devices
  std::size_t event = 0;  // events of the trace before it
};

/// What the device, and the limit of the process, would still have given then.
Bytes room_of(const OutOfMemory& oom);

struct PendingFree {
  std::string site;
  std::int64_t address = 0, size = 0, stream = 0;
  std::int64_t waiting_us = -1;  // since the free was requested; -1: before the trace began
};

struct Fragmentation {
  std::int64_t segments = 0, reserved = 0, allocated = 0, requested = 0, pending = 0;
  std::int64_t free_in_used = 0;   // free within segments that hold something: fragments
  std::int64_t free_segments = 0;  // wholly free: cached
  std::int64_t largest_free = 0, fragments = 0;
};

struct DeviceSummary {
  std::size_t device = 0, events = 0;
  std::int64_t ooms = 0;
  std::optional<OutOfMemory> oom;      // the last one
  Holdings begin, peak, end;           // peak: at the highest active
  std::size_t peak_event = 0;          // in the trace; 0 with no event: the moment of the file
  std::vector<Site> sites;             // the largest share of the peak first
  std::vector<Part> parts;             // where the file has labels; by kind, the largest first
  std::vector<Part> left;              // likewise, of the end: what was not freed
  std::vector<Waste> wastes;           // where the file has labels
  std::vector<PhasePeak> phases;       // where the file has them; by step, in the program's order
  std::vector<RepeatedSteps> repeats;  // of the file
  std::vector<SkippedSteps> skipped;   // of the device
  std::vector<PendingFree> pending;    // at the end, the largest first
  Fragmentation fragmentation;
  std::vector<Holdings> curve;  // after every event
};

/// By device; only those that hold a segment or an event.
std::vector<DeviceSummary> analyse(const Snapshot& snapshot);

/// A place in the program, on both sides.
struct SiteChange {
  std::string site;
  std::string was;     // its name before, where that is another one
  Site before, after;  // of all sizes
  std::map<std::int64_t, Site> sizes_before, sizes_after;
};
/// The names that places have afterwards, of those whose name is another one: of the sites of all
/// devices before and after.
using MovedSites = std::function<std::map<std::string, std::string>(const std::vector<Site>&,
                                                                    const std::vector<Site>&)>;
/// Changes of all devices together, the largest change at the peak first; sites whose sizes are all
/// as before are left out. How long blocks live, by the host's clock, is no difference.
std::vector<SiteChange> differ(const Snapshot& before, const Snapshot& after,
                               const MovedSites& moved = {});

/// The peaks of active of all devices together, in bytes.
std::int64_t peak_of_active(const Snapshot& snapshot);

}  // namespace tidemark
