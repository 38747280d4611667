#include "reports/events/compare_traces.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "reports/snapshot/rewind.h"

namespace tidemark {
namespace {

constexpr std::size_t kFrames = 4;  // of an event, in the text

/// A trace with what is needed to compare it.
class Side {
 public:
  Side(const Snapshot& snapshot, bool blocks_alone)
      : snapshot_(snapshot), trace_(snapshot.traces[traced_device(snapshot)]) {
    for (const TraceEvent& e : trace_) {
      if (e.action == Action::snapshot || (blocks_alone && !of_block(e.action))) continue;
      events_.push_back(&e);
      streams_.try_emplace(e.stream, streams_.size());
      if (e.action == Action::segment_alloc) starts_.push_back(e.address);
    }
    for (const SnapshotSegment& segment : snapshot.segments) starts_.push_back(segment.address);
    std::ranges::sort(starts_);
    starts_.erase(std::ranges::unique(starts_).begin(), starts_.end());
  }

  std::size_t size() const { return events_.size(); }
  const TraceEvent& operator[](std::size_t i) const { return *events_[i]; }
  std::size_t place(std::size_t i) const {  // in the trace
    return static_cast<std::size_t>(events_[i] - trace_.data());
  }
  std::size_t stream(const TraceEvent& e) const { return streams_.at(e.stream); }
  auto key(std::size_t i) const {
    return std::tuple((*this)[i].action, (*this)[i].size, stream((*this)[i]));
  }
  std::pair<std::int64_t, std::int64_t> block(const TraceEvent& e) const {
    const auto after = std::ranges::upper_bound(starts_, e.address);
    if (after == starts_.begin()) return {-1, e.address};
    return {after - starts_.begin(), e.address - *std::prev(after)};
  }

  std::string text(std::size_t i) const {
    if (i >= size()) return "nothing more";
    const TraceEvent& e = (*this)[i];
    return fmt::format("{} of {} bytes, stream {}", name_of(e.action), e.size, stream(e));
  }
  void frames(std::size_t i, const char* side, std::vector<std::string>& out) const {
    if (i >= size()) return;
    std::size_t shown = 0;
    for (const std::uint32_t at : snapshot_.stacks[(*this)[i].stack]) {
      const StackFrame& frame = snapshot_.frames[at];
      if (!frame.file.ends_with(".py") || frame.file.find("/torch/") != std::string::npos ||
          ++shown > kFrames)
        continue;
      out.push_back(fmt::format("{}: {} ({}:{})", side, frame.function, frame.file, frame.line));
    }
  }

 private:
  const Snapshot& snapshot_;
  const std::vector<TraceEvent>& trace_;
  std::vector<const TraceEvent*> events_;
  std::map<std::int64_t, std::size_t> streams_;
  std::vector<std::int64_t> starts_;  // of segments, ascending
};

std::optional<TraceDifference> first_difference(const Side& a, const Side& b) {
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    if (i < a.size() && i < b.size() && a.key(i) == b.key(i)) continue;
    TraceDifference out{i < a.size() ? a.place(i) : b.place(i), a.text(i), b.text(i), {}};
    a.frames(i, "first", out.frames);
    b.frames(i, "second", out.frames);
    return out;
  }
  return std::nullopt;
}

std::vector<std::int64_t> sizes(const Snapshot& snapshot) {
  std::map<std::int64_t, std::int64_t> by_address;
  for (const SnapshotSegment& segment : snapshot.segments)
    by_address[segment.address] = segment.total_size;
  std::vector<std::int64_t> out;
  for (const auto& [address, size] : by_address) out.push_back(size);
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
                               const Snapshot& second, const std::string& second_name) {
  for (const auto& [snapshot, name] : {std::pair{&first, &first_name}, {&second, &second_name}}) {
    try {
      traced_device(*snapshot);
    } catch (const SnapshotError& error) {
      throw SnapshotError(*name + ": " + error.what());
    }
  }
  const Side a(first, false), b(second, false);
  TraceComparison out;
  out.events = a.size();
  out.different = first_difference(a, b);
  const Side blocks_a(first, true), blocks_b(second, true);
  if (out.different) out.blocks_differ = first_difference(blocks_a, blocks_b);
  for (std::size_t i = 0; i < std::min(blocks_a.size(), blocks_b.size()); ++i) {
    if (blocks_a[i].action != Action::alloc || blocks_b[i].action != Action::alloc) continue;
    ++out.allocations;
    out.same_places += blocks_a.block(blocks_a[i]) == blocks_b.block(blocks_b[i]);
  }
  const auto one = sizes(first), two = sizes(second);
  out.same_segments = one == two;
  out.segments[0] = one.size(), out.segments[1] = two.size();
  for (const auto size : one) out.reserved[0] += size;
  for (const auto size : two) out.reserved[1] += size;
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
                     same_segments ? ", the same in the order of addresses" : "");
  out += fmt::format("places: {} of {} allocations in the same place of the same segment\n",
                     same_places, allocations);
  return out + (different
                    ? fmt::format("events: different at event {} of {}\n", different->event, events)
                    : fmt::format("events: all {} equal in action, size and stream\n", events));
}

}  // namespace tidemark
