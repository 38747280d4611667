#include "harness/virtual/device/pool.h"

#include <algorithm>
#include <optional>

#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/memory.h"

namespace tidemark::device {
namespace {

constexpr std::size_t kAlignment = 512;
constexpr std::size_t kGrowth = std::size_t{32} << 20;  // what CUDA's pools reserve at a time
constexpr std::uintptr_t kFirstPool = 0x7000;

struct FreeBlock {
  std::size_t bytes;
  Mark ready;                // what has to be done before the memory may be used by anybody
  std::int64_t stream = -1;  // the one that freed it; -1: never used
};

struct Pool {
  int device = 0;
  bool alive = true;
  int follow_events = 1, opportunistic = 1, internal = 1;
  std::uint64_t threshold = 0, reserved = 0, reserved_high = 0, used = 0, used_high = 0;
  std::map<std::uintptr_t, std::size_t> segments;
  std::map<std::uintptr_t, FreeBlock> free;
  std::map<std::uintptr_t, std::size_t> blocks;  // in use

  DeviceMemory& memory() const { return *engine().memory[static_cast<std::size_t>(device)]; }
};

struct State {
  std::vector<Pool> pools;           // the first are the devices' default pools
  std::vector<std::size_t> current;  // by device
};

State& state() {
  static State& instance = *[] {
    auto* made = new State;
    for (int d = 0; d < engine().devices; ++d) {
      made->pools.emplace_back().device = d;
      made->current.push_back(static_cast<std::size_t>(d));
    }
    return made;
  }();
  return instance;
}

cudaMemPool_t handle_of(std::size_t index) {
  return reinterpret_cast<cudaMemPool_t>(kFirstPool + 16 * index);
}

Pool* find(cudaMemPool_t handle) {
  const std::uintptr_t index = (reinterpret_cast<std::uintptr_t>(handle) - kFirstPool) / 16;
  if (index >= state().pools.size() || handle_of(index) != handle || !state().pools[index].alive)
    return nullptr;
  return &state().pools[index];
}

// Neighbouring free blocks of one segment that a stream may use, as one.
struct Run {
  std::uintptr_t begin = 0;
  std::size_t bytes = 0;
};

template <class Usable>
std::optional<Run> best_run(const Pool& p, std::size_t bytes, Usable usable) {
  std::optional<Run> best;
  Run run;
  const auto close = [&] {
    if (run.bytes >= bytes && (!best || run.bytes < best->bytes)) best = run;
    run = {};
  };
  for (const auto& [begin, block] : p.free) {
    if (!usable(block)) {
      close();
      continue;
    }
    if (run.bytes && (run.begin + run.bytes != begin || p.segments.contains(begin))) close();
    if (run.bytes == 0) run.begin = begin;
    run.bytes += block.bytes;
  }
  close();
  return best;
}

// Takes the first `bytes` of a run; what must be waited for goes into `ready`.
void take(Pool& p, std::uintptr_t begin, std::size_t bytes, Mark& ready) {
  for (std::size_t left = bytes; left > 0;) {
    auto at = p.free.find(begin + (bytes - left));
    FreeBlock block = at->second;
    ready.clock.merge(block.ready.clock);
    ready.time = std::max(ready.time, block.ready.time);
    const std::uintptr_t place = at->first;
    p.free.erase(at);
    if (block.bytes > left) {
      const std::size_t rest = block.bytes - left;
      p.free.emplace(place + left, FreeBlock{rest, block.ready, block.stream});
      left = 0;
    } else {
      left -= block.bytes;
    }
  }
  p.blocks.emplace(begin, bytes);
  p.used += bytes;
  p.used_high = std::max(p.used_high, p.used);
}

bool grow(Pool& p, std::size_t bytes) {
  for (std::size_t size :
       {std::max(kGrowth, round_up(bytes, kGranule)), round_up(bytes, kGranule)}) {
    const std::uintptr_t begin = p.memory().take(size);
    if (!begin) continue;
    p.segments.emplace(begin, size);
    p.free.emplace(begin, FreeBlock{size, {}, -1});
    p.reserved += size;
    p.reserved_high = std::max(p.reserved_high, p.reserved);
    return true;
  }
  return false;
}

// Gives whole segments back that are free and done, highest addresses first, until `keep` bytes are
// left.
void shrink(Pool& p, std::uint64_t keep) {
  for (auto segment = p.segments.end(); segment != p.segments.begin() && p.reserved > keep;) {
    --segment;
    const auto [begin, bytes] = *segment;
    std::size_t idle = 0;
    const auto first = p.free.lower_bound(begin), last = p.free.lower_bound(begin + bytes);
    for (auto block = first; block != last; ++block) {
      if (engine().is_done(block->second.ready)) idle += block->second.bytes;
    }
    if (idle != bytes) continue;
    p.free.erase(first, last);
    p.memory().give(begin);
    p.reserved -= bytes;
    segment = p.segments.erase(segment);
  }
}

// Back into the pool; joins a neighbour that the same stream freed.
void put_back(Pool& p, std::uintptr_t begin, const Mark& ready, std::int64_t stream) {
  auto used = p.blocks.find(begin);
  FreeBlock block{used->second, ready, stream};
  p.used -= block.bytes;
  p.blocks.erase(used);
  const auto join = [&](const FreeBlock& other) {
    block.bytes += other.bytes;
    block.ready.clock.merge(other.ready.clock);
    block.ready.time = std::max(block.ready.time, other.ready.time);
  };
  auto next = p.free.find(begin + block.bytes);
  if (next != p.free.end() && next->second.stream == stream && !p.segments.contains(next->first)) {
    join(next->second);
    p.free.erase(next);
  }
  auto before = p.free.lower_bound(begin);
  if (before != p.free.begin() && !p.segments.contains(begin)) {
    --before;
    if (before->second.stream == stream && before->first + before->second.bytes == begin) {
      join(before->second);
      begin = before->first;
      p.free.erase(before);
    }
  }
  p.free.emplace(begin, std::move(block));
  if (!p.alive && p.blocks.empty()) shrink(p, 0);
}

Pool* owner_of(std::uintptr_t address) {
  for (Pool& p : state().pools) {
    if (p.blocks.contains(address)) return &p;
  }
  return nullptr;
}

template <class Body>
cudaError_t with_pool(cudaMemPool_t pool, Body body) {
  std::lock_guard lock(engine().mutex);
  if (engine().devices == 0) return cudaErrorNoDevice;
  Pool* p = find(pool);
  return p ? body(*p) : cudaErrorInvalidValue;
}

template <class Body>
cudaError_t with_device(int device, Body body) {
  std::lock_guard lock(engine().mutex);
  if (device < 0 || device >= engine().devices) return cudaErrorInvalidDevice;
  return body(static_cast<std::size_t>(device));
}

}  // namespace

void release_pool_memory(int device) {
  for (Pool& p : state().pools) {
    if ((device < 0 || p.device == device) && p.reserved > p.threshold)
      shrink(p, p.alive ? p.threshold : 0);
  }
}

bool free_from_pool(std::uintptr_t address) {
  Pool* p = owner_of(address);
  if (!p) return false;
  put_back(*p, address, {}, -1);
  if (p->reserved > p->threshold) shrink(*p, p->threshold);
  return true;
}

cudaError_t default_pool(cudaMemPool_t* pool, int device) {
  if (!pool) return cudaErrorInvalidValue;
  return with_device(device, [&](std::size_t d) {
    *pool = handle_of(d);
    return cudaSuccess;
  });
}

cudaError_t current_pool(cudaMemPool_t* pool, int device) {
  if (!pool) return cudaErrorInvalidValue;
  return with_device(device, [&](std::size_t d) {
    *pool = handle_of(state().current[d]);
    return cudaSuccess;
  });
}

cudaError_t set_current_pool(int device, cudaMemPool_t pool) {
  return with_device(device, [&](std::size_t d) {
    const Pool* p = find(pool);
    if (!p || p->device != device) return cudaErrorInvalidValue;
    state().current[d] = static_cast<std::size_t>(p - state().pools.data());
    return cudaSuccess;
  });
}

cudaError_t create_pool(cudaMemPool_t* pool, int device) {
  if (!pool) return cudaErrorInvalidValue;
  return with_device(device, [&](std::size_t) {
    *pool = handle_of(state().pools.size());
    state().pools.emplace_back().device = device;
    return cudaSuccess;
  });
}

cudaError_t destroy_pool(cudaMemPool_t pool) {
  return with_pool(pool, [&](Pool& p) {
    const auto index = static_cast<std::size_t>(&p - state().pools.data());
    if (index < static_cast<std::size_t>(engine().devices))
      return cudaErrorInvalidValue;  // a default pool
    p.alive = false;
    std::size_t& current = state().current[static_cast<std::size_t>(p.device)];
    if (current == index) current = static_cast<std::size_t>(p.device);
    if (p.blocks.empty()) shrink(p, 0);
    return cudaSuccess;
  });
}

cudaError_t pool_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  if (!value) return cudaErrorInvalidValue;
  return with_pool(pool, [&](Pool& p) {
    const auto flag = [&](int v) { return *static_cast<int*>(value) = v, cudaSuccess; };
    const auto bytes = [&](std::uint64_t v) {
      return *static_cast<std::uint64_t*>(value) = v, cudaSuccess;
    };
    switch (attribute) {
      case cudaMemPoolReuseFollowEventDependencies:
        return flag(p.follow_events);
      case cudaMemPoolReuseAllowOpportunistic:
        return flag(p.opportunistic);
      case cudaMemPoolReuseAllowInternalDependencies:
        return flag(p.internal);
      case cudaMemPoolAttrReleaseThreshold:
        return bytes(p.threshold);
      case cudaMemPoolAttrReservedMemCurrent:
        return bytes(p.reserved);
      case cudaMemPoolAttrReservedMemHigh:
        return bytes(p.reserved_high);
      case cudaMemPoolAttrUsedMemCurrent:
        return bytes(p.used);
      case cudaMemPoolAttrUsedMemHigh:
        return bytes(p.used_high);
      default:
        return cudaErrorInvalidValue;
    }
  });
}

cudaError_t set_pool_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, const void* value) {
  if (!value) return cudaErrorInvalidValue;
  return with_pool(pool, [&](Pool& p) {
    const auto flag = [&](int& v) { return v = *static_cast<const int*>(value) != 0, cudaSuccess; };
    const auto reset = [&](std::uint64_t& high, std::uint64_t now) {  // marks can only be set back
      if (*static_cast<const std::uint64_t*>(value) != 0) return cudaErrorInvalidValue;
      high = now;
      return cudaSuccess;
    };
    switch (attribute) {
      case cudaMemPoolReuseFollowEventDependencies:
        return flag(p.follow_events);
      case cudaMemPoolReuseAllowOpportunistic:
        return flag(p.opportunistic);
      case cudaMemPoolReuseAllowInternalDependencies:
        return flag(p.internal);
      case cudaMemPoolAttrReleaseThreshold:
        p.threshold = *static_cast<const std::uint64_t*>(value);
        return cudaSuccess;
      case cudaMemPoolAttrReservedMemHigh:
        return reset(p.reserved_high, p.reserved);
      case cudaMemPoolAttrUsedMemHigh:
        return reset(p.used_high, p.used);
      default:
        return cudaErrorInvalidValue;
    }
  });
}

cudaError_t set_pool_access(cudaMemPool_t pool, int device, bool accessible) {
  return with_pool(pool, [&](Pool& p) {
    if (device < 0 || device >= engine().devices) return cudaErrorInvalidDevice;
    return device == p.device && !accessible ? cudaErrorInvalidValue : cudaSuccess;
  });
}

cudaError_t trim_pool(cudaMemPool_t pool, std::size_t keep) {
  return with_pool(pool, [&](Pool& p) {
    shrink(p, keep);
    return cudaSuccess;
  });
}

cudaError_t allocate_async(void** address, std::size_t bytes, cudaMemPool_t pool,
                           StreamHandle stream) {
  if (!address) return cudaErrorInvalidValue;
  *address = nullptr;
  Engine& e = engine();
  std::lock_guard lock(e.mutex);
  Stream* s = e.find(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  Pool* p =
      pool ? find(pool) : &state().pools[state().current[static_cast<std::size_t>(s->device)]];
  if (!p) return cudaErrorInvalidValue;
  if (bytes == 0) return cudaSuccess;
  if (bytes > p->memory().capacity) return cudaErrorMemoryAllocation;
  const std::size_t rounded = round_up(bytes, kAlignment);
  e.now += e.launch_cost();
  count_activity(e, true);
  e.apply_default_stream_rules(*s);

  const auto mine = [&](const FreeBlock& b) {
    return b.stream < 0 || b.stream == s->index ||
           (p->follow_events && s->clock.covers(b.ready.clock));
  };
  const auto mine_or_done = [&](const FreeBlock& b) {
    return mine(b) || (p->opportunistic && e.is_done(b.ready));
  };
  auto run = best_run(*p, rounded, mine);
  if (!run) run = best_run(*p, rounded, mine_or_done);
  if (!run && grow(*p, rounded)) run = best_run(*p, rounded, mine);
  bool wait = false;
  if (!run && p->internal) {  // rather wait for another stream than fail
    run = best_run(*p, rounded, [](const FreeBlock&) { return true; });
    wait = run.has_value();
  }
  if (!run) {  // what other pools of the device keep for themselves
    for (Pool& other : state().pools) {
      if (other.device == p->device) shrink(other, 0);
    }
    if (grow(*p, rounded)) run = best_run(*p, rounded, mine);
  }
  if (!run) return cudaErrorMemoryAllocation;
  Mark ready;
  take(*p, run->begin, rounded, ready);
  if (wait) e.order_after(*s, ready);
  *address = reinterpret_cast<void*>(run->begin);
  return cudaSuccess;
}

cudaError_t free_async(void* address, StreamHandle stream) {
  Engine& e = engine();
  std::lock_guard lock(e.mutex);
  Stream* s = e.find(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (!address) return cudaSuccess;
  Pool* p = owner_of(reinterpret_cast<std::uintptr_t>(address));
  if (!p) return cudaErrorInvalidValue;
  e.now += e.launch_cost();
  count_activity(e, true);
  put_back(*p, reinterpret_cast<std::uintptr_t>(address), e.mark(*s), s->index);
  return cudaSuccess;
}

}  // namespace tidemark::device
