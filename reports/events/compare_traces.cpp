#include "reports/events/compare_traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <ranges>
#include <tuple>

#include "harness/memory/rewind.h"
#include "harness/memory/site.h"

namespace tidemark {
namespace {

constexpr std::size_t kFrames = 4;  // of an event, in the text

bool is_free(const AllocatorEvent& e) {
  return e.action == AllocatorAction::free_requested || e.action == AllocatorAction::free_completed;
}

/// A trace with what is needed to compare it.
class Side {
 public:
  Side(const Snapshot& snapshot, std::size_t device, bool blocks_alone)
      : snapshot_(snapshot), trace_(snapshot.traces[device]) {
    std::map<std::int64_t, std::size_t> owners;  // by address
    for (const AllocatorEvent& e : trace_) {
      if (e.action == AllocatorAction::snapshot || (blocks_alone && !of_block(e.action))) continue;
      if (e.action == AllocatorAction::alloc) owners[e.address] = ++allocations_;
      events_.push_back(&e);
      const auto owner = owners.find(e.address);
      owners_.push_back(is_free(e) && owner != owners.end() ? owner->second : 0);
      if (e.action == AllocatorAction::free_completed) owners.erase(e.address);
      streams_.try_emplace(e.stream, streams_.size());
    }
  }

  std::size_t size() const { return events_.size(); }
  const AllocatorEvent& operator[](std::size_t i) const { return *events_[i]; }
  std::size_t place(std::size_t i) const {  // in the trace
    return static_cast<std::size_t>(events_[i] - trace_.data());
  }
  std::size_t stream(const AllocatorEvent& e) const { return streams_.at(e.stream); }
  auto key(std::size_t i) const {
    return std::tuple((*this)[i].action, (*this)[i].size, stream((*this)[i]));
  }
  bool frees(std::size_t i) const { return i < size() && is_free((*this)[i]); }
  /// The keys of a run of frees, each with the allocation that it frees, sorted.
  auto freed(std::size_t begin, std::size_t end) const {
    std::vector<std::tuple<AllocatorAction, std::int64_t, std::size_t, std::size_t>> out;
    for (std::size_t i = begin; i < end; ++i)
      out.push_back(std::tuple_cat(key(i), std::tuple(owners_[i])));
    std::ranges::sort(out);
    return out;
  }

  std::string text(std::size_t i) const {
    if (i >= size()) return "nothing more";
    const AllocatorEvent& e = (*this)[i];
    return fmt::format("{} of {} bytes, stream {}", name_of(e.action), e.size, stream(e));
  }
  void frames(std::size_t i, const char* side, std::vector<std::string>& out) const {
    if (i >= size()) return;
    std::size_t shown = 0;
    for (const std::uint32_t at : snapshot_.stacks[(*this)[i].stack]) {
      const StackFrame& frame = snapshot_.frames[at];
      if (!is_users_python(snapshot_, frame) || ++shown > kFrames) continue;
      out.push_back(fmt::format("{}: {} ({}:{})", side, frame.function, frame.file, frame.line));
    }
  }

 private:
  const Snapshot& snapshot_;
  const std::vector<AllocatorEvent>& trace_;
  std::vector<const AllocatorEvent*> events_;
  std::vector<std::size_t> owners_;  // of frees: the allocation, from 1; 0 is not known
  std::size_t allocations_ = 0;
  std::map<std::int64_t, std::size_t> streams_;
};

/// The first difference; `turned` counts the frees that come in another order, which is none.
std::optional<TraceDifference> first_difference(const Side& a, const Side& b, std::size_t& turned) {
  std::size_t run = 0;  // where the frees began that the last equal event belongs to
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && a.key(i) == b.key(i)) {
      if (!a.frees(i)) run = i + 1;
      continue;
    }
    std::size_t end = i;
    while (a.frees(end) && b.frees(end)) ++end;
    if (end > i && !a.frees(end) && !b.frees(end) && a.freed(run, end) == b.freed(run, end)) {
      turned += end - run;
      i = end - 1, run = end;
      continue;
    }
    TraceDifference out{i < a.size() ? a.place(i) : b.place(i), a.text(i), b.text(i), {}};
    a.frames(i, "first", out.frames);
    b.frames(i, "second", out.frames);
    return out;
  }
  return std::nullopt;
}

/// Sizes of the segments at the end, ascending.
std::vector<std::int64_t> sizes(const Snapshot& snapshot, std::size_t device) {
  std::vector<std::int64_t> out;
  for (const Segment& segment : snapshot.segments)
    if (static_cast<std::size_t>(segment.device) == device) out.push_back(segment.total_size);
  std::ranges::sort(out);
  return out;
}

std::string shown(const TraceDifference& difference) {
  std::string out =
      fmt::format("event {}: {} | {}\n", difference.event, difference.first, difference.second);
  for (const std::string& frame : difference.frames) out += "  " + frame + "\n";
  return out;
}

}  // namespace

TraceComparison compare_traces(const Snapshot& first, const std::string& first_name,
                               const Snapshot& second, const std::string& second_name,
                               std::optional<std::size_t> device) {
  const auto chosen = [&](const Snapshot& snapshot, const std::string& name) {
    try {
      return traced_device(snapshot, traced_devices(snapshot).size() > 1 ? device : std::nullopt);
    } catch (const SnapshotError& error) {
      throw SnapshotError(name + ": " + error.what());
    }
  };
  const std::size_t one = chosen(first, first_name), two = chosen(second, second_name);
  const Side a(first, one, false), b(second, two, false);
  TraceComparison out;
  out.events = a.size();
  out.different = first_difference(a, b, out.turned);
  std::size_t alike = SIZE_MAX;  // allocations before the first difference of blocks
  if (out.different) {
    const Side blocks_a(first, one, true), blocks_b(second, two, true);
    std::size_t ignored = 0;
    out.blocks_differ = first_difference(blocks_a, blocks_b, ignored);
    if (out.blocks_differ)
      alike = static_cast<std::size_t>(
          std::ranges::count(first.traces[one] | std::views::take(out.blocks_differ->event),
                             AllocatorAction::alloc, &AllocatorEvent::action));
  }
  out.places = same_places(places_of(first, one), places_of(second, two), alike);
  const auto sizes_one = sizes(first, one), sizes_two = sizes(second, two);
  out.same_segments = sizes_one == sizes_two;
  out.segments[0] = sizes_one.size(), out.segments[1] = sizes_two.size();
  for (const auto size : sizes_one) out.reserved[0] += size;
  for (const auto size : sizes_two) out.reserved[1] += size;
  return out;
}

std::string TraceComparison::text(const std::string& first, const std::string& second) const {
  std::string out;
  if (different) {
    out += fmt::format("first: {}\nsecond: {}\n{}", first, second, shown(*different));
    if (!blocks_differ)
      out += "without segments: all events equal\n";
    else if (blocks_differ->event != different->event)
      out += "without segments, " + shown(*blocks_differ);
  }
  out += fmt::format("segments at the end: {} of {} bytes | {} of {} bytes{}\n", segments[0],
                     reserved[0], segments[1], reserved[1],
                     same_segments ? ", of the same sizes" : "");
  out += fmt::format("places: {} of {} allocations in the same place of the same segment{}\n",
                     places.same, places.compared,
                     blocks_differ ? ", not compared from the difference on" : "");
  if (different)
    return out + fmt::format("events: different at event {} of {}\n", different->event, events);
  out += fmt::format("events: all {} equal in action, size and stream", events);
  if (turned > 0) out += fmt::format(", {} of them the same frees in another order", turned);
  return out + "\n";
}

}  // namespace tidemark
