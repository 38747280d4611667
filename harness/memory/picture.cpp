#include "harness/memory/picture.h"

#include <algorithm>
#include <array>
#include <limits>
#include <map>
#include <optional>
#include <ranges>
#include <unordered_map>

#include "harness/memory/format/format.h"
#include "harness/memory/parts.h"
#include "harness/memory/rewind.h"
#include "harness/memory/site.h"
#include "harness/memory/walk.h"

namespace tidemark {
namespace {

using Block = MemoryPicture::Block;

constexpr std::size_t kNotYet = std::numeric_limits<std::size_t>::max();
const std::vector<AllocatorEvent> kNoTrace;

class Composer {
 public:
  Composer(const Snapshot& snapshot, const DeviceSummary& summary)
      : s_(snapshot),
        trace_(summary.device < snapshot.traces.size() ? snapshot.traces[summary.device]
                                                       : kNoTrace),
        summary_(summary),
        segments_(summary.device, snapshot.segments, snapshot.pooled) {
    for (const SourceLine& one : s_.sources) sources_[{one.file, one.line}] = one.text;
    labels_ = labels_of(s_, summary.device);
    holders_ = holders_of(s_, summary.device);
  }

  MemoryPicture run() {
    out_.device = summary_.device;
    out_.in_all = std::ssize(trace_);
    out_.peak = summary_.peak_event;
    timed_ = !s_.phases.empty() || !s_.left_steps.empty() || !summary_.skipped.empty();
    out_.events.reserve(trace_.size() + 1), out_.reserved.reserve(trace_.size() + 1);
    before();
    moment({}, summary_.begin.reserved);
    for (TraceWalk walk(trace_); walk.next();) {
      follow(walk.event(), walk.place());
      moment(walk.moment(), summary_.curve[walk.place()].reserved);
    }
    for (Block& block : out_.blocks) {
      if (block.until == kNotYet) block.until = out_.events.size();
      // The allocator gives a block back in the event after, unless another stream uses it.
      if (block.waits == kNotYet || block.waits + 1 == block.until) block.waits = block.until;
    }
    phases();
    if (out_.blocks.empty() || !whole()) return {};
    out_.phase_peaks = summary_.phases;
    out_.segments = segments_.take(out_.events.size());
    if (!holds_reserved()) out_.segments.clear();
    return std::move(out_);
  }

 private:
  void moment(const ProgramPhase::Moment& at, std::int64_t reserved) {
    if (timed_) moments_.emplace(at, out_.events.size());
    out_.events.push_back(std::ssize(out_.events));
    out_.reserved.push_back(reserved);
  }

  /// What was there before the trace's first event.
  void before() {
    const std::vector<BlockBefore> all = blocks_before(s_, summary_.device);
    out_.blocks.reserve(all.size() + static_cast<std::size_t>(std::ranges::count(
                                         trace_, AllocatorAction::alloc, &AllocatorEvent::action)));
    for (const BlockBefore& one : all) {
      MemoryPicture::Place place{MemoryKind::before};
      if (one.stack != 0) at_line_of(one.stack, place);
      live_[one.address] = out_.blocks.size();
      out_.blocks.push_back({number_of(std::move(place)), one.bytes, 0, one.freed ? 0 : kNotYet,
                             kNotYet, one.address, rest_of(one.bytes, one.size),
                             call_of(one.stack)});
    }
    if (summary_.begin.reserved == 0 || !is_undone_soon()) return;
    try {
      if (trace_.empty()) {
        for (const Segment& one : s_.segments)
          if (static_cast<std::size_t>(one.device) == summary_.device) segments_.before(one);
      } else {
        for (const Segment& one : memory_before(s_, summary_.device).segments)
          segments_.before(one);
      }
    } catch (const SnapshotError&) {  // then they do not sum to `reserved`, and are left out
    }
  }

  /// Undoing a trace looks through the blocks of a segment at each of its events: true where that
  /// takes less than a second or two. Else segments are left out.
  bool is_undone_soon() const {
    constexpr std::size_t kMost = 1'000'000'000;
    std::size_t most = 1;
    for (const Segment& one : s_.segments)
      if (static_cast<std::size_t>(one.device) == summary_.device)
        most = std::max(most, one.blocks.size());
    return trace_.size() <= kMost / most;
  }

  /// What the allocator rounds up; it has no block of nothing.
  static Bytes rest_of(Bytes requested, Bytes block) {
    if (block <= 0) block = std::max<Bytes>(512, recorder::rounded(requested));
    return std::max<Bytes>(block - requested, 0);
  }

  void follow(const AllocatorEvent& event, std::size_t place) {
    segments_.apply(event, place + 1);
    if (event.action == AllocatorAction::alloc) {
      live_[event.address] = out_.blocks.size();
      out_.blocks.push_back({place_of(event), event.size, place + 1, kNotYet, kNotYet,
                             event.address, rest_of(event.size, event.block),
                             call_of(event.stack)});
    } else if (const auto block = live_.find(event.address); block != live_.end()) {
      if (event.action == AllocatorAction::free_requested)
        out_.blocks[block->second].waits = place + 1;
      if (event.action != AllocatorAction::free_completed) return;
      out_.blocks[block->second].until = place + 1;
      live_.erase(block);
    }
  }

  std::size_t place_of(const AllocatorEvent& event) {
    const Part part = part_of(s_, event, labels_, true);
    MemoryPicture::Place place{part.kind, part.module, part.site, "", 0};
    at_line_of(event.stack, place);
    if (const auto holder = holders_.find(&event); holder != holders_.end())
      place.holder = holder->second;
    return number_of(std::move(place));
  }

  void at_line_of(std::uint32_t stack, MemoryPicture::Place& place) const {
    if (place.site.empty() && stack != 0) place.site = site_of(s_, stack);
    if (const StackFrame* frame = users_frame(s_, stack))
      place.file = frame->file, place.line = frame->line, place.source = source_of(*frame);
  }

  std::size_t number_of(MemoryPicture::Place place) {
    const auto [at, fresh] = places_.try_emplace(place, out_.places.size());
    if (fresh) out_.places.push_back(std::move(place));
    return at->second;
  }

  std::optional<std::string> source_of(const StackFrame& frame) const {
    const auto known = sources_.find({frame.file, frame.line});
    return known == sources_.end() ? std::nullopt : std::optional(known->second);
  }

  std::uint32_t call_of(std::uint32_t stack) {
    const auto [at, fresh] = calls_.try_emplace(stack, 0);
    if (!fresh) return at->second;
    std::uint32_t call = 0;
    for (const std::uint32_t frame : s_.stacks[stack] | std::views::reverse) {
      const auto [number, unseen] = frames_.try_emplace(frame, 0);
      if (unseen) {
        const StackFrame& one = s_.frames[frame];
        number->second = out_.calls.frame(one);
        if (const auto source = source_of(one)) out_.sources[number->second] = *source;
      }
      call = out_.calls.call(call, number->second);
    }
    return at->second = call;
  }

  void phases() {
    for (const ProgramPhase& phase : s_.phases) {
      if (static_cast<std::size_t>(phase.device) != summary_.device) continue;
      const auto from = moments_.find(phase.begin), to = moments_.find(phase.end);
      if (from == moments_.end() || to == moments_.end()) continue;
      // What allocates nothing is a step or ends one too: an optimizer, a graph that is replayed.
      constexpr std::array kSteps{"optimizer", "empty_cache", "forward", "backward"};
      if (from->second < to->second || std::ranges::find(kSteps, phase.name) != kSteps.end())
        out_.phases.push_back({phase.name, phase.step, from->second, to->second});
    }
    if (!steps_are_told())
      for (MemoryPicture::Phase& phase : out_.phases) phase.step = 0;
    std::ranges::stable_sort(out_.phases, {}, &MemoryPicture::Phase::from);
    for (const LeftStep& one : s_.left_steps) {
      if (static_cast<std::size_t>(one.device) != summary_.device) continue;
      if (const auto at = moments_.find(one.at); at != moments_.end())
        out_.left_steps.emplace_back(one.step, at->second);
    }
    for (const SkippedSteps& one : summary_.skipped)
      if (const auto at = moments_.find(one.at); at != moments_.end())
        out_.whole_from = std::max(out_.whole_from, at->second);
  }

  /// An optimizer ends a step. Without one, several forwards or backwards may be of as many steps;
  /// a single one is of the first.
  bool steps_are_told() const {
    const auto count = [&](std::string_view name) {
      return std::ranges::count(out_.phases, name, &MemoryPicture::Phase::name);
    };
    const auto backwards = count("backward");
    return !s_.left_steps.empty() || count("optimizer") > 0 ||
           std::ranges::any_of(out_.phases, [](const auto& one) { return one.step > 1; }) ||
           (s_.repeats.empty() && (backwards == 1 || (backwards == 0 && count("forward") <= 1)));
  }

  bool whole() const {
    const std::vector<std::int64_t> active = active_of(out_);
    if (active[0] != summary_.begin.active) return false;
    for (std::size_t i = 0; i < trace_.size(); ++i)
      if (active[i + 1] != summary_.curve[i].active) return false;
    return true;
  }

  bool holds_reserved() const {
    std::vector<std::int64_t> levels(out_.events.size() + 1);
    for (const SegmentLife& one : out_.segments)
      levels[one.from] += one.bytes, levels[one.until] -= one.bytes;
    std::int64_t level = 0;
    for (std::size_t i = 0; i < out_.reserved.size(); ++i)
      if ((level += levels[i]) != out_.reserved[i]) return false;
    return true;
  }

  const Snapshot& s_;
  const std::vector<AllocatorEvent>& trace_;
  const DeviceSummary& summary_;
  SegmentLives segments_;
  LabelOf labels_;
  HolderOf holders_;
  MemoryPicture out_;
  bool timed_ = false;  // moments are asked for
  std::map<ProgramPhase::Moment, std::size_t> moments_;
  std::unordered_map<std::int64_t, std::size_t> live_;  // address -> block
  std::map<MemoryPicture::Place, std::size_t> places_;
  std::map<std::pair<std::string, std::int64_t>, std::string> sources_;
  std::unordered_map<std::uint32_t, std::uint32_t> calls_, frames_;  // of the snapshot's
};

// The moments that stay.
std::vector<std::size_t> kept(const MemoryPicture& picture, std::size_t most) {
  const std::vector<std::int64_t> active = active_of(picture);
  const std::size_t kept = picture.refused > 0 ? 3 : 2;  // beside the stretches
  const std::size_t count = active.size(), stretches = std::max(most, kept + 1) - kept;
  std::vector<std::size_t> out{0};
  for (std::size_t i = 0; i < stretches; ++i) {
    const auto at = [&](std::size_t stretch) {  // 64 bits: the product may have more than 32
      return 1 + static_cast<std::size_t>(std::uint64_t{count - 2} * stretch / stretches);
    };
    const std::size_t from = at(i), to = at(i + 1);
    const auto begin = active.begin();
    const auto highest = std::max_element(begin + static_cast<std::ptrdiff_t>(from),
                                          begin + static_cast<std::ptrdiff_t>(to));
    if (from < to) out.push_back(static_cast<std::size_t>(highest - begin));
  }
  out.push_back(count - 1);
  if (const auto at = std::ranges::lower_bound(out, picture.refused);
      picture.refused > 0 && *at != picture.refused)
    out.insert(at, picture.refused);
  return out;
}

}  // namespace

MemoryPicture picture_of(const Snapshot& snapshot, const DeviceSummary& summary) {
  return Composer(snapshot, summary).run();
}

MemoryPicture thinned(MemoryPicture picture, std::size_t most) {
  if (picture.events.size() <= most || picture.events.size() <= 3) return picture;
  const std::vector<std::size_t> moments = kept(picture, most);
  const auto after = [&](std::size_t moment) {  // the first that stays at or after it
    return static_cast<std::size_t>(std::ranges::lower_bound(moments, moment) - moments.begin());
  };
  for (Block& block : picture.blocks)
    block.from = after(block.from), block.waits = after(block.waits),
    block.until = after(block.until);
  std::erase_if(picture.blocks, [](const Block& block) { return block.from == block.until; });
  for (SegmentLife& segment : picture.segments)
    segment.from = after(segment.from), segment.until = after(segment.until);
  std::erase_if(picture.segments, [](const SegmentLife& one) { return one.from == one.until; });
  for (MemoryPicture::Phase& phase : picture.phases)
    phase.from = std::min(after(phase.from), moments.size() - 1),
    phase.to = std::min(after(phase.to), moments.size() - 1);
  std::erase_if(picture.phases, [](const auto& phase) { return phase.from >= phase.to; });
  picture.peak = after(picture.peak);
  if (picture.refused > 0) picture.refused = after(picture.refused);
  std::vector<std::int64_t> events, reserved;
  for (const std::size_t moment : moments) {
    events.push_back(picture.events[moment]);
    reserved.push_back(picture.reserved[moment]);
  }
  picture.events = std::move(events), picture.reserved = std::move(reserved);
  return picture;
}

std::vector<std::int64_t> active_of(const MemoryPicture& picture) {
  std::vector<std::int64_t> out(picture.events.size() + 1);  // changes, then levels
  for (const Block& block : picture.blocks) {
    out[block.from] += block.bytes;
    out[block.until] -= block.bytes;
  }
  for (std::size_t i = 1; i < out.size(); ++i) out[i] += out[i - 1];
  out.pop_back();
  return out;
}

const MemoryPicture::Phase* phase_at(const MemoryPicture& picture, std::size_t moment) {
  const MemoryPicture::Phase* out = nullptr;
  for (const MemoryPicture::Phase& phase : picture.phases)
    if (phase.from < moment && moment <= phase.to &&
        (out == nullptr || phase.to - phase.from < out->to - out->from))
      out = &phase;
  return out;
}

}  // namespace tidemark
