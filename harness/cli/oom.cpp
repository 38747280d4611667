#include "harness/cli/oom.h"

#include <c10/cuda/CUDACachingAllocator.h>
#include <fmt/format.h>

#include <mutex>
#include <optional>

#include "harness/memory/snapshot.h"
#include "harness/run/variant.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace allocator = c10::cuda::CUDACachingAllocator;

std::mutex mutex;  // autograd's threads allocate too
std::optional<Snapshot> kept;

BlockState state_of(const c10::CachingDeviceAllocator::BlockInfo& block) {
  if (block.allocated) return BlockState::allocated;
  return block.active ? BlockState::pending_free : BlockState::inactive;
}

Segment segment_of(const c10::CachingDeviceAllocator::SegmentInfo& from) {
  Segment to;
  to.device = from.device;
  to.address = static_cast<std::int64_t>(from.address);
  to.total_size = static_cast<std::int64_t>(from.total_size);
  to.stream = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(from.stream));
  to.type = from.is_large ? "large" : "small";
  to.expandable = from.is_expandable;
  to.pool = {static_cast<std::int64_t>(from.owner_private_pool_id.first),
             static_cast<std::int64_t>(from.owner_private_pool_id.second)};
  std::int64_t address = to.address;
  for (const auto& block : from.blocks) {
    const auto size = static_cast<std::int64_t>(block.size);
    // A free block still has the request of the tensor that it last belonged to.
    const auto requested = block.active ? static_cast<std::int64_t>(block.requested_size) : 0;
    to.blocks.push_back({address, size, requested, state_of(block), 0});
    address += size;
  }
  return to;
}

Snapshot moment(std::int64_t device, std::size_t wanted, std::size_t device_free) {
  Snapshot snapshot;
  for (const auto& segment : allocator::snapshot().segments)
    snapshot.segments.push_back(segment_of(segment));
  snapshot.traces.resize(static_cast<std::size_t>(device) + 1);
  AllocatorEvent event;
  event.action = AllocatorAction::oom;
  event.size = static_cast<std::int64_t>(wanted);
  event.address = static_cast<std::int64_t>(device_free);
  snapshot.traces.back().push_back(event);
  return snapshot;
}

}  // namespace

void watch_out_of_memory() {
  // Called before the allocator throws, without its lock: everything is still alive.
  allocator::attachOutOfMemoryObserver(
      [](std::int64_t device, std::size_t wanted, std::size_t, std::size_t device_free) {
        auto snapshot = moment(device, wanted, device_free);
        const std::lock_guard lock(mutex);
        kept = std::move(snapshot);
      });
}

std::string save_out_of_memory(const std::filesystem::path& folder, const Trial& trial,
                               const std::string& variant, int rank) {
  std::optional<Snapshot> snapshot;
  {
    const std::lock_guard lock(mutex);
    snapshot.swap(kept);
  }
  if (!snapshot) return "";
  const std::string name =
      path_component(fmt::format("{}-{}-{}-{}-{}-rank{}.pickle", trial.scenario, trial.size,
                                 name_of(trial.mode), trial.schedule, variant, rank));
  try {
    std::filesystem::create_directories(folder / "oom");
    write_files(folder / "oom", {{name, pickle(*snapshot)}});
  } catch (const std::exception& error) {
    return fmt::format("no snapshot could be written: {}", first_line(error));
  }
  return "snapshot of that moment: oom/" + name;
}

}  // namespace tidemark
