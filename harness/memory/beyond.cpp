#include "harness/memory/beyond.h"

#include <algorithm>

#include "harness/memory/format/format.h"

namespace tidemark {
namespace {

using Events = std::vector<AllocatorEvent>;

bool is_allocation(const AllocatorEvent& event) { return event.action == AllocatorAction::alloc; }

/// Cuts off all after the moment `last`.
void cut(MemoryPicture& picture, std::size_t last) {
  std::erase_if(picture.blocks, [&](const auto& block) { return block.from > last; });
  for (MemoryPicture::Block& block : picture.blocks) {
    block.waits = std::min(block.waits, last + 1);
    block.until = std::min(block.until, last + 1);
  }
  std::erase_if(picture.phases, [&](const auto& phase) { return phase.from >= last; });
  for (MemoryPicture::Phase& phase : picture.phases) phase.to = std::min(phase.to, last);
  picture.events.resize(last + 1);
  picture.reserved.resize(last + 1);
  picture.in_all = picture.events.back();
  const std::vector<std::int64_t> active = active_of(picture);
  picture.peak = static_cast<std::size_t>(std::ranges::max_element(active) - active.begin());
}

}  // namespace

std::optional<MemoryPicture> beyond(const Snapshot& full, const DeviceSummary& device,
                                    const Snapshot& room, MemoryPicture picture) {
  if (device.device >= room.traces.size() || picture.events.empty()) return {};
  if (!full.repeats.empty() || !device.skipped.empty()) return {};  // not all events are there
  const Events &before = full.traces[device.device], &after = room.traces[device.device];
  const auto oom = std::ranges::find(before.rbegin(), before.rend(), AllocatorAction::oom,
                                     &AllocatorEvent::action);
  if (oom == before.rend()) return {};
  auto next = std::ranges::find_if(after, is_allocation);
  for (auto event = before.begin(); event != oom.base(); ++event) {
    if (!is_allocation(*event)) continue;
    if (next == after.end() || next->size != event->size) return {};
    next = std::find_if(next + 1, after.end(), is_allocation);
  }
  if (next == after.end() || recorder::rounded(next->size) != recorder::rounded(oom->size))
    return {};
  picture.refused = static_cast<std::size_t>(next - after.begin()) + 1;
  picture.refused_bytes = next->size;
  if (picture.refused >= picture.events.size()) return {};
  std::size_t last = picture.events.size() - 1;
  if (const auto* phase = phase_at(picture, picture.refused)) {
    const std::int64_t step = phase->step;
    last = picture.refused;
    for (const MemoryPicture::Phase& one : picture.phases)
      if (one.step == step) last = std::max(last, one.to);
  }
  cut(picture, last);
  return picture;
}

}  // namespace tidemark
