#include "harness/memory/picture.h"

#include <algorithm>
#include <map>
#include <optional>
#include <unordered_map>

#include "harness/memory/parts.h"
#include "harness/memory/site.h"
#include "harness/memory/walk.h"

namespace tidemark {
namespace {

using Block = MemoryPicture::Block;

class Composer {
 public:
  Composer(const Snapshot& snapshot, const DeviceSummary& summary)
      : s_(snapshot), trace_(snapshot.traces[summary.device]), summary_(summary) {
    labels_ = labels_of(s_, summary.device);
    holders_ = holders_of(s_, summary.device);
  }

  MemoryPicture run() {
    out_.device = summary_.device;
    out_.in_all = std::ssize(trace_);
    out_.peak = summary_.peak_event;
    moment({}, summary_.begin.reserved);
    for (TraceWalk walk(trace_); walk.next();) {
      follow(walk.event(), walk.place());
      moment(walk.moment(), summary_.curve[walk.place()].reserved);
    }
    for (Block& block : out_.blocks) {
      if (block.until == 0) block.until = out_.events.size();
      // The allocator gives a block back in the event after, unless another stream uses it.
      if (block.waits == 0 || block.waits + 1 == block.until) block.waits = block.until;
    }
    phases();
    if (out_.blocks.empty() || !whole()) return {};
    return std::move(out_);
  }

 private:
  void moment(const ProgramPhase::Moment& at, std::int64_t reserved) {
    moments_.emplace(at, out_.events.size());
    out_.events.push_back(std::ssize(out_.events));
    out_.reserved.push_back(reserved);
  }

  void follow(const AllocatorEvent& event, std::size_t place) {
    if (event.action == AllocatorAction::alloc) {
      live_[event.address] = out_.blocks.size();
      out_.blocks.push_back({place_of(event), event.size, place + 1, 0, 0});
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
    if (const StackFrame* frame = users_frame(s_, event.stack))
      place.file = frame->file, place.line = frame->line;
    if (const auto holder = holders_.find(&event); holder != holders_.end())
      place.holder = holder->second;
    const auto [at, fresh] = places_.try_emplace(place, out_.places.size());
    if (fresh) out_.places.push_back(std::move(place));
    return at->second;
  }

  void phases() {
    for (const ProgramPhase& phase : s_.phases) {
      if (static_cast<std::size_t>(phase.device) != summary_.device) continue;
      const auto from = moments_.find(phase.begin), to = moments_.find(phase.end);
      if (from == moments_.end() || to == moments_.end()) continue;
      // An optimizer that allocates nothing ends a step too.
      if (from->second < to->second || phase.name == "optimizer")
        out_.phases.push_back({phase.name, phase.step, from->second, to->second});
    }
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

  bool whole() const {
    const std::vector<std::int64_t> active = active_of(out_);
    if (active[0] != summary_.begin.active) return false;
    for (std::size_t i = 0; i < trace_.size(); ++i)
      if (active[i + 1] != summary_.curve[i].active) return false;
    return true;
  }

  const Snapshot& s_;
  const std::vector<AllocatorEvent>& trace_;
  const DeviceSummary& summary_;
  LabelOf labels_;
  HolderOf holders_;
  MemoryPicture out_;
  std::map<ProgramPhase::Moment, std::size_t> moments_;
  std::unordered_map<std::int64_t, std::size_t> live_;  // address -> block
  std::map<MemoryPicture::Place, std::size_t> places_;
};

// The moments that stay.
std::vector<std::size_t> kept(const MemoryPicture& picture, std::size_t most) {
  const std::vector<std::int64_t> active = active_of(picture);
  const std::size_t count = active.size(), stretches = std::max<std::size_t>(most, 3) - 2;
  std::vector<std::size_t> out{0};
  for (std::size_t i = 0; i < stretches; ++i) {
    const std::size_t from = 1 + (count - 2) * i / stretches;
    const std::size_t to = 1 + (count - 2) * (i + 1) / stretches;
    const auto begin = active.begin();
    const auto highest = std::max_element(begin + static_cast<std::ptrdiff_t>(from),
                                          begin + static_cast<std::ptrdiff_t>(to));
    if (from < to) out.push_back(static_cast<std::size_t>(highest - begin));
  }
  out.push_back(count - 1);
  return out;
}

}  // namespace

MemoryPicture picture_of(const Snapshot& snapshot, const DeviceSummary& summary) {
  if (summary.device >= snapshot.traces.size()) return {};
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
  for (MemoryPicture::Phase& phase : picture.phases)
    phase.from = std::min(after(phase.from), moments.size() - 1),
    phase.to = std::min(after(phase.to), moments.size() - 1);
  std::erase_if(picture.phases, [](const auto& phase) { return phase.from >= phase.to; });
  picture.peak = after(picture.peak);
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
