// Properties of any program in the model of the allocator: the replays and forms rely on them.
#include "harness/testing/property.h"
#include "reference/memory/allocator.h"

namespace tidemark::reference {
namespace {

using testing::for_all;
constexpr std::int64_t kMiB = 1 << 20;

std::int64_t up(std::int64_t bytes, std::int64_t granule) {
  return (bytes + granule - 1) / granule * granule;
}

rc::Gen<std::int64_t> sizes() {
  return rc::gen::oneOf(rc::gen::inRange<std::int64_t>(1, 4 * 512),
                        rc::gen::inRange<std::int64_t>(kMiB - 512, kMiB + 513),
                        rc::gen::inRange<std::int64_t>(10 * kMiB - 512, 10 * kMiB + 513),
                        rc::gen::inRange<std::int64_t>(1, 64 * kMiB));
}

// A block of 512 bytes' multiple; segments of 2 MiB, 20 MiB, or the block's own rounded to 2 MiB.
TEST(AllocatorProperties, OneBlockTakesWhatTheClosedFormSays) {
  for_all(5000, [] {
    Allocator memory(true);
    const auto bytes = *sizes();
    auto* block = memory.allocate(bytes, 0);
    const auto size = up(bytes, 512);
    RC_ASSERT(memory.requested.current == bytes);
    const auto reserved = size <= kMiB       ? 2 * kMiB
                          : size < 10 * kMiB ? 20 * kMiB
                                             : up(size, 2 * kMiB);
    RC_ASSERT(memory.reserved.current == reserved);
    // The rest of a large segment stays with the block unless it is more than 1 MiB.
    const auto rest = reserved - size;
    const bool split = size <= kMiB ? rest >= 512 : rest > kMiB;
    RC_ASSERT(memory.allocated.current == (split ? size : reserved));
    RC_ASSERT(memory.active.current == memory.allocated.current);
    memory.free(block);
    RC_ASSERT(memory.allocated.current == 0);
    RC_ASSERT(memory.active.current == 0);
    RC_ASSERT(memory.reserved.current == reserved);
  });
}

void in_order(const Allocator& memory) {
  RC_ASSERT(memory.requested.current <= memory.active.current);
  RC_ASSERT(memory.allocated.current <= memory.active.current);
  RC_ASSERT(memory.active.current <= memory.reserved.current);
  for (const Figure* figure :
       {&memory.requested, &memory.allocated, &memory.active, &memory.reserved}) {
    RC_ASSERT(figure->current >= 0);
    RC_ASSERT(figure->current <= figure->peak);
  }
}

// Runs a random program on a device that is done at once and on one that waits for the host.
TEST(AllocatorProperties, AnyProgramKeepsTheOrderOfTheFigures) {
  for_all(2000, [] {
    Allocator instant(true), lagging(false);
    std::vector<std::pair<Allocator::Handle, Allocator::Handle>> live;
    for (int call = *rc::gen::inRange(1, 60); call > 0; --call) {
      const int stream = *rc::gen::inRange(0, 3), other = *rc::gen::inRange(0, 3);
      const auto which = [&] { return *rc::gen::inRange<std::size_t>(0, live.size()); };
      switch (live.empty() ? 0 : *rc::gen::inRange(0, 5)) {
        case 0:
        case 1: {
          const auto bytes = *sizes();
          live.emplace_back(instant.allocate(bytes, stream), lagging.allocate(bytes, stream));
          break;
        }
        case 2: {
          const auto at = which();
          for (auto* memory : {&instant, &lagging}) memory->enqueue(other);
          instant.record(live[at].first, other);
          lagging.record(live[at].second, other);
          break;
        }
        case 3: {
          std::swap(live[which()], live.back());
          instant.free(live.back().first);
          lagging.free(live.back().second);
          live.pop_back();
          break;
        }
        default:
          for (auto* memory : {&instant, &lagging}) memory->synchronize(stream);
      }
      for (auto* memory : {&instant, &lagging}) in_order(*memory);
      // A block that waits for a stream counts until the host knows that it need not.
      RC_ASSERT(instant.requested.current <= lagging.requested.current);
      RC_ASSERT(instant.requested.peak <= lagging.requested.peak);
    }
    for (auto& [first, second] : live) {
      instant.free(first);
      lagging.free(second);
    }
    for (int stream = 0; stream < 3; ++stream) lagging.synchronize(stream);
    // The next call notices what has ended.
    for (auto* memory : {&instant, &lagging}) {
      memory->free(memory->allocate(1, 0));
      RC_ASSERT(memory->requested.current == 0);
      RC_ASSERT(memory->allocated.current == 0);
      RC_ASSERT(memory->active.current == 0);
      in_order(*memory);
    }
  });
}

}  // namespace
}  // namespace tidemark::reference
