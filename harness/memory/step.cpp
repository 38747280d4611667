#include "harness/memory/step.h"

#include <algorithm>
#include <functional>
#include <ranges>
#include <set>

#include "harness/record/number.h"

namespace tidemark {
namespace {

std::string stream_name(const Snapshot& history, std::int64_t stream) {
  const auto name = history.streams.find(stream);
  return name == history.streams.end() ? "" : name->second;
}

struct Live {
  MemoryKind kind = MemoryKind::other;
  std::string tensor;  // "Half[512, 2048]"
  Bytes bytes = 0, requested = 0;
  std::int64_t stream = 0;
  std::uint32_t stack = 0;
  bool pending = false;
};

/// Follows the events of a device.
class Walk {
 public:
  Walk(const Snapshot& history, std::size_t device)
      : s_(history), trace_(history.traces[device]), device_(device), label_(s_.labels.begin()) {}

  void run(StepMemory& out, std::size_t most) {
    const std::size_t begin = last_step();
    for (std::size_t i = 0; i <= trace_.size(); ++i) {
      if (i == begin) reach(i);
      if (i == trace_.size()) break;
      take(trace_[i]);
      if (i >= begin) out.timeline.push_back({trace_[i].time, allocated_, active_, reserved_});
      if (i >= begin && allocated_ > highest_) reach(i + 1);
    }
    for (const auto& [kind, bytes] : at_highest_) out.categories[kind].peak_share = bytes;
    for (const auto& [kind, bytes] : kinds_) out.categories[kind].end = bytes;
    std::erase_if(out.categories, [](const auto& one) {
      return one.second.peak_share == 0 && one.second.end == 0;
    });
    Walk again(s_, device_);
    for (std::size_t i = 0; i < highest_at_; ++i) again.take(trace_[i]);
    out.largest = again.largest(most);
  }

 private:
  std::size_t last_step() const {
    for (auto step = s_.steps.rbegin(); step != s_.steps.rend(); ++step)
      if (static_cast<std::size_t>(step->device) == device_) return step->event;
    return 0;
  }
  void reach(std::size_t events) {
    highest_ = allocated_;
    highest_at_ = events;
    at_highest_ = kinds_;
  }

  void take(const AllocatorEvent& event) {
    switch (event.action) {
      case AllocatorAction::alloc: {
        Live& made = live_[event.address];
        made = {MemoryKind::other, "", event.block, event.size, event.stream, event.stack, false};
        allocated_ += event.block, active_ += event.block;
        kinds_[made.kind] += made.bytes;
        ++allocations_;
        return label();
      }
      case AllocatorAction::free_requested:
        if (const auto freed = live_.find(event.address); freed != live_.end()) {
          freed->second.pending = true;
          allocated_ -= freed->second.bytes;
          kinds_[freed->second.kind] -= freed->second.bytes;
        }
        return;
      case AllocatorAction::free_completed:
        if (const auto freed = live_.find(event.address); freed != live_.end()) {
          active_ -= freed->second.bytes;
          live_.erase(freed);
        }
        return;
      case AllocatorAction::segment_alloc:
      case AllocatorAction::segment_map:
        reserved_ += event.size;
        return;
      case AllocatorAction::segment_free:
      case AllocatorAction::segment_unmap:
        reserved_ -= event.size;
        return;
      case AllocatorAction::snapshot:
      case AllocatorAction::oom:
        return;
    }
  }

  void label() {
    for (; label_ != s_.labels.end() && label_->allocations <= allocations_; ++label_) {
      if (static_cast<std::size_t>(label_->device) != device_) continue;
      const auto named = live_.find(label_->address);
      if (named == live_.end()) continue;
      Live& of = named->second;
      if (!of.pending) kinds_[of.kind] -= of.bytes, kinds_[label_->kind] += of.bytes;
      of.kind = label_->kind;
      of.tensor = label_->name;
    }
  }

  std::vector<AliveBlock> largest(std::size_t most) const {
    std::vector<const Live*> all;
    for (const auto& [address, live] : live_) all.push_back(&live);
    std::ranges::stable_sort(all, std::greater(), &Live::bytes);
    all.resize(std::min(all.size(), most));
    std::vector<AliveBlock> out;
    for (const Live* live : all) {
      const auto& stack = s_.stacks[live->stack];
      const auto [shape, dtype] = tensor_of(live->tensor);
      out.push_back({live->bytes, live->requested, live->kind,
                     stack.empty() ? "" : s_.frames[stack[0]].function, shape, dtype,
                     stream_name(s_, live->stream), live->pending});
    }
    return out;
  }

  // Sizes and type of "Half[512, 2048]".
  static std::pair<std::vector<std::int64_t>, std::string> tensor_of(const std::string& text) {
    const std::size_t open = text.find('[');
    if (open == text.npos) return {};
    std::vector<std::int64_t> sizes;
    for (std::size_t at = open + 1; at < text.size();) {
      const std::size_t end = text.find_first_of(",]", at);
      if (end == text.npos) break;
      if (const auto size = parse_step(text.substr(at, end - at))) sizes.push_back(*size);
      at = end + 1 + (text[end] == ',' ? 1 : 0);
    }
    return {sizes, text.substr(0, open)};
  }

  const Snapshot& s_;
  const std::vector<AllocatorEvent>& trace_;
  std::size_t device_;
  std::vector<TensorLabel>::const_iterator label_;
  std::int64_t allocations_ = 0;
  std::map<std::int64_t, Live> live_;  // by address
  std::map<MemoryKind, Bytes> kinds_, at_highest_;
  Bytes allocated_ = 0, active_ = 0, reserved_ = 0, highest_ = 0;
  std::size_t highest_at_ = 0;  // events until then
};

}  // namespace

std::vector<Sample> thinned(const std::vector<Sample>& samples, std::size_t most) {
  if (samples.size() <= most) return samples;
  std::vector<Sample> out;
  const std::size_t bucket = samples.size() * 4 / most + 1;
  for (std::size_t begin = 0; begin < samples.size(); begin += bucket) {
    const std::size_t end = std::min(begin + bucket, samples.size());
    std::set<std::size_t> keep{begin, end - 1};
    for (auto member : {&Sample::allocated, &Sample::active, &Sample::reserved})
      keep.insert(*std::ranges::max_element(std::views::iota(begin, end), {},
                                            [&](std::size_t i) { return samples[i].*member; }));
    for (auto i : keep) out.push_back(samples[i]);
  }
  return out;
}

std::vector<MemoryHistory> by_steps(const Snapshot& history, std::size_t device) {
  if (device >= history.traces.size()) return {};
  const auto& trace = history.traces[device];
  std::vector<std::size_t> begins;
  for (const StepBegin& step : history.steps)
    if (static_cast<std::size_t>(step.device) == device) begins.push_back(step.event);
  if (begins.empty() || begins.front() > 0) begins.insert(begins.begin(), 0);
  std::vector<MemoryHistory> out;
  for (std::size_t i = 0; i < begins.size(); ++i) {
    const std::size_t end = i + 1 < begins.size() ? begins[i + 1] : trace.size();
    MemoryHistory& step = out.emplace_back();
    step.frames = history.frames, step.stacks = history.stacks, step.streams = history.streams;
    step.traces.emplace_back(trace.begin() + static_cast<std::ptrdiff_t>(begins[i]),
                             trace.begin() + static_cast<std::ptrdiff_t>(end));
  }
  return out;
}

Snapshot in_blocks(Snapshot history) {
  for (auto& trace : history.traces) {
    std::map<std::int64_t, Bytes> blocks;  // by address
    for (AllocatorEvent& event : trace) {
      if (!of_block(event.action)) continue;
      if (event.action == AllocatorAction::alloc) blocks[event.address] = event.block;
      if (const auto block = blocks.find(event.address); block != blocks.end())
        event.size = block->second;
    }
  }
  for (Segment& segment : history.segments)
    for (MemoryBlock& block : segment.blocks)
      if (block.state != BlockState::inactive) block.requested = block.size;
  return history;
}

StepMemory step_memory(const Snapshot& history, std::size_t device, std::size_t most) {
  StepMemory out;
  if (device < history.traces.size()) Walk(history, device).run(out, most);
  return out;
}

}  // namespace tidemark
