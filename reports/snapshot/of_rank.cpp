#include "reports/snapshot/of_rank.h"

#include <algorithm>
#include <map>
#include <unordered_map>

namespace tidemark {

namespace {

class Composer {
 public:
  explicit Composer(const RankRecord& rank) : rank_(rank) {}

  Snapshot run() {
    if (!rank_.trace.events.empty()) out_.traces.emplace_back();
    for (const AllocatorEvent& event : rank_.trace.events) add(event);
    for (const Segment& segment : rank_.map.segments) add(segment);
    if (!out_.segments.empty() && out_.traces.empty()) out_.traces.emplace_back();
    return std::move(out_);
  }

 private:
  const std::string& phase_at(Ns time) const {
    static const std::string kNone = "before the first phase";
    const std::string* found = &kNone;
    for (const auto& [name, start] : rank_.phase_starts)
      if (start <= time) found = &name;
    return *found;
  }

  std::uint32_t stack(const std::string& op, const std::string& phase) {
    if (op.empty()) return 0;
    const auto [found, added] = stacks_.try_emplace(std::pair(op, phase), out_.stacks.size());
    if (added) {
      out_.stacks.push_back({static_cast<std::uint32_t>(out_.frames.size())});
      out_.frames.push_back({op, phase, 0});
    }
    return static_cast<std::uint32_t>(found->second);
  }

  std::int64_t stream(const std::string& name) {
    if (name.starts_with("default stream")) return 0;
    const auto number = static_cast<std::int64_t>(streams_.size()) + 1;
    return streams_.try_emplace(name, number).first->second;
  }

  void add(const AllocatorEvent& event) {
    TraceEvent out;
    out.action = event.action;
    out.address = event.action == AllocatorAction::oom ? 0 : event.address;
    out.size = event.bytes;
    if (event.action == AllocatorAction::oom) out.device_free = event.address;
    out.stream = stream(rank_.trace.streams.at(event.stream));
    out.time_us = event.time / 1000;
    out.stack = stack(rank_.trace.ops.at(event.op), phase_at(event.time));
    if (event.action == AllocatorAction::alloc) made_[event.address] = out.stack;
    out_.traces.back().push_back(out);
  }

  void add(const Segment& segment) {
    out_.segments.push_back(segment_of(segment, made_));
    out_.segments.back().stream = stream(segment.stream);
  }

  const RankRecord& rank_;
  Snapshot out_;
  std::map<std::pair<std::string, std::string>, std::size_t> stacks_;
  std::unordered_map<std::string, std::int64_t> streams_;
  std::unordered_map<std::int64_t, std::uint32_t> made_;  // who allocated an address last
};

}  // namespace

Snapshot snapshot_of(const RankRecord& rank) { return Composer(rank).run(); }

SnapshotSegment segment_of(const Segment& from,
                           const std::unordered_map<std::int64_t, std::uint32_t>& made) {
  SnapshotSegment out;
  out.address = from.address;
  out.total_size = from.bytes;
  out.type = from.pool;
  for (const SegmentPart& part : from.parts) {
    SnapshotBlock block;
    block.address = from.address + part.offset;
    block.size = part.bytes;
    block.requested = part.requested;
    block.state = part.state;
    if (const auto stack = made.find(block.address);
        stack != made.end() && part.state != BlockState::inactive)
      block.stack = stack->second;
    out.blocks.push_back(block);
  }
  return out;
}

}  // namespace tidemark
