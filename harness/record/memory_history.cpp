#include "harness/record/memory_history.h"

#include <map>
#include <ranges>

namespace tidemark {

std::vector<std::string> MemoryHistory::operators() const {
  std::vector<std::string> by_stack;
  for (const auto& stack : stacks)
    by_stack.push_back(stack.empty() ? "" : frames[stack[0]].function);
  return by_stack;
}

void MemoryHistory::set_operators(const std::vector<std::string>& by_stack) {
  frames.clear(), stacks = {{}};
  for (std::size_t i = 1; i < by_stack.size(); ++i) {
    stacks.push_back({static_cast<std::uint32_t>(i - 1)});
    frames.push_back({by_stack[i], "", 0});
  }
}

void MemoryHistory::keep_largest(std::size_t most) {
  std::size_t count = 0;
  for (const Segment& segment : segments) count += segment.blocks.size();
  while (count > most) {
    const auto smallest = std::ranges::min_element(segments, {}, &Segment::total_size);
    count -= smallest->blocks.size();
    ++left_out_segments;
    left_out_bytes += smallest->total_size;
    segments.erase(smallest);
  }
}

MemoryHistory MemoryHistory::for_pytorch(
    const std::vector<std::pair<std::string, Ns>>& phases) const {
  MemoryHistory out{.segments = segments, .traces = traces};
  std::map<std::pair<std::uint32_t, std::string>, std::uint32_t> in_phase;  // stacks
  std::map<std::int64_t, std::uint32_t> made;  // by address: the stack of the last allocation
  std::map<std::string, std::int64_t> numbers;
  const auto number = [&](std::int64_t stream) {
    const std::string& name = streams.at(static_cast<std::size_t>(stream));
    if (name.starts_with("default stream")) return std::int64_t{0};
    return numbers.try_emplace(name, std::ssize(numbers) + 1).first->second;
  };
  for (AllocatorEvent& event : out.traces | std::views::join) {
    event.stream = number(event.stream);
    if (event.stack != 0) {
      std::string phase = "before the first phase";
      for (const auto& [name, begin] : phases)
        if (begin <= event.time) phase = name;
      const auto [at, fresh] = in_phase.try_emplace({event.stack, phase}, out.stacks.size());
      if (fresh) {
        out.stacks.push_back({static_cast<std::uint32_t>(out.frames.size())});
        out.frames.push_back({frames[stacks[event.stack][0]].function, phase, 0});
      }
      event.stack = at->second;
    }
    if (event.action == AllocatorAction::alloc) made[event.address] = event.stack;
  }
  for (Segment& segment : out.segments) {
    segment.stream = number(segment.stream);
    for (MemoryBlock& block : segment.blocks)
      block.stack = block.state == BlockState::inactive ? 0 : made[block.address];
  }
  return out;
}

}  // namespace tidemark
