#include "harness/virtual/device/pool.h"

#include <algorithm>
#include <deque>
#include <vector>

#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/known.h"
#include "harness/virtual/device/memory.h"
#include "harness/virtual/device/stream_pool.h"

namespace tidemark::device {
namespace {

constexpr std::size_t kAlignment = 512;
constexpr std::uintptr_t kFirstPool = 0x7000;

struct Pools {
  std::deque<StreamPool> pools;      // the first are the devices' default pools
  std::vector<std::size_t> current;  // by device

  Pools() {
    for (int d = 0; d < engine().devices; ++d) {
      pools.emplace_back(d);
      current.push_back(static_cast<std::size_t>(d));
    }
  }
};

Pools& pools() { return immortal<Pools>(); }

cudaMemPool_t handle_of(std::size_t index) {
  return reinterpret_cast<cudaMemPool_t>(kFirstPool + 16 * index);
}

std::size_t index_of(cudaMemPool_t handle) {
  return (reinterpret_cast<std::uintptr_t>(handle) - kFirstPool) / 16;
}

StreamPool* find(cudaMemPool_t handle) {
  const std::size_t index = index_of(handle);
  if (index >= pools().pools.size() || handle_of(index) != handle) return nullptr;
  StreamPool& pool = pools().pools[index];
  return pool.alive ? &pool : nullptr;
}

StreamPool* owner_of(std::uintptr_t address) {
  for (StreamPool& p : pools().pools) {
    if (p.owns(address)) return &p;
  }
  return nullptr;
}

template <class Body>
cudaError_t with_pool(cudaMemPool_t pool, Body body) {
  std::lock_guard lock(engine().mutex);
  if (engine().devices == 0) return cudaErrorNoDevice;
  StreamPool* p = find(pool);
  return p ? body(*p) : cudaErrorInvalidValue;
}

/// Value that an attribute reads and sets; all null where there is no such attribute.
struct Attribute {
  int* flag = nullptr;
  std::uint64_t* bytes = nullptr;
  const std::uint64_t* marked = nullptr;  // of a high mark: what it marks
};
Attribute attribute_of(StreamPool& p, cudaMemPoolAttr attribute) {
  switch (attribute) {
    case cudaMemPoolReuseFollowEventDependencies:
      return {.flag = &p.follow_events};
    case cudaMemPoolReuseAllowOpportunistic:
      return {.flag = &p.opportunistic};
    case cudaMemPoolReuseAllowInternalDependencies:
      return {.flag = &p.internal};
    case cudaMemPoolAttrReleaseThreshold:
      return {.bytes = &p.threshold};
    case cudaMemPoolAttrReservedMemCurrent:
      return {.bytes = &p.reserved};
    case cudaMemPoolAttrReservedMemHigh:
      return {.bytes = &p.reserved_high, .marked = &p.reserved};
    case cudaMemPoolAttrUsedMemCurrent:
      return {.bytes = &p.used};
    case cudaMemPoolAttrUsedMemHigh:
      return {.bytes = &p.used_high, .marked = &p.used};
    default:
      return {};
  }
}

template <class Body>
cudaError_t with_device(int device, Body body) {
  std::lock_guard lock(engine().mutex);
  if (device < 0 || device >= engine().devices) return cudaErrorInvalidDevice;
  return body(static_cast<std::size_t>(device));
}

}  // namespace

void release_pool_memory(int device) {
  for (StreamPool& p : pools().pools) {
    if ((device < 0 || p.device == device) && p.reserved > p.threshold)
      p.shrink(p.alive ? p.threshold : 0);
  }
}

bool is_pool_memory(std::uintptr_t address) {
  return std::ranges::any_of(pools().pools,
                             [&](const StreamPool& p) { return p.has_segment_at(address); });
}

bool free_from_pool(std::uintptr_t address) {
  StreamPool* p = owner_of(address);
  if (!p) return false;
  p->put_back(address, {}, -1);
  if (p->reserved > p->threshold) p->shrink(p->threshold);
  return true;
}

cudaError_t default_pool(cudaMemPool_t* pool, int device) {
  if (!pool) return cudaErrorInvalidValue;
  return with_device(device, [&](std::size_t d) { return give(pool, handle_of(d)); });
}

cudaError_t current_pool(cudaMemPool_t* pool, int device) {
  if (!pool) return cudaErrorInvalidValue;
  return with_device(device,
                     [&](std::size_t d) { return give(pool, handle_of(pools().current[d])); });
}

cudaError_t set_current_pool(int device, cudaMemPool_t pool) {
  return with_device(device, [&](std::size_t d) {
    const StreamPool* p = find(pool);
    if (!p || p->device != device) return cudaErrorInvalidValue;
    pools().current[d] = index_of(pool);
    return cudaSuccess;
  });
}

cudaError_t create_pool(cudaMemPool_t* pool, int device) {
  if (!pool) return cudaErrorInvalidValue;
  return with_device(device, [&](std::size_t) {
    pools().pools.emplace_back(device);
    return give(pool, handle_of(pools().pools.size() - 1));
  });
}

cudaError_t destroy_pool(cudaMemPool_t pool) {
  return with_pool(pool, [&](StreamPool& p) {
    const std::size_t index = index_of(pool);
    if (index < static_cast<std::size_t>(engine().devices))
      return cudaErrorInvalidValue;  // a default pool
    p.alive = false;
    std::size_t& current = pools().current[static_cast<std::size_t>(p.device)];
    if (current == index) current = static_cast<std::size_t>(p.device);
    if (!p.in_use()) p.shrink(0);
    return cudaSuccess;
  });
}

cudaError_t pool_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value) {
  if (!value) return cudaErrorInvalidValue;
  return with_pool(pool, [&](StreamPool& p) {
    const Attribute a = attribute_of(p, attribute);
    if (a.flag) return give(static_cast<int*>(value), *a.flag);
    if (a.bytes) return give(static_cast<std::uint64_t*>(value), *a.bytes);
    return cudaErrorInvalidValue;
  });
}

cudaError_t set_pool_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, const void* value) {
  if (!value) return cudaErrorInvalidValue;
  return with_pool(pool, [&](StreamPool& p) {
    const Attribute a = attribute_of(p, attribute);
    if (a.flag) return give(a.flag, *static_cast<const int*>(value) != 0);
    const auto* const bytes = static_cast<const std::uint64_t*>(value);
    if (attribute == cudaMemPoolAttrReleaseThreshold) return give(a.bytes, *bytes);
    if (!a.marked || *bytes != 0) return cudaErrorInvalidValue;  // marks can only be set back
    return give(a.bytes, *a.marked);
  });
}

cudaError_t set_pool_access(cudaMemPool_t pool, int device, bool accessible) {
  return with_pool(pool, [&](StreamPool& p) {
    if (device < 0 || device >= engine().devices) return cudaErrorInvalidDevice;
    return device == p.device && !accessible ? cudaErrorInvalidValue : cudaSuccess;
  });
}

cudaError_t trim_pool(cudaMemPool_t pool, std::size_t keep) {
  return with_pool(pool, [&](StreamPool& p) {
    p.shrink(keep);
    return cudaSuccess;
  });
}

cudaError_t allocate_async(void** address, std::size_t bytes, cudaMemPool_t pool,
                           StreamHandle stream) {
  if (!address) return cudaErrorInvalidValue;
  *address = nullptr;
  auto [e, lock, s] = locked(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (s->capture) {
    not_supported("libcudart", "cudaMallocAsync in a stream capture");
    return s->capture->refuse(cudaErrorNotSupported);
  }
  StreamPool* p =
      pool ? find(pool) : &pools().pools[pools().current[static_cast<std::size_t>(s->device)]];
  if (!p) return cudaErrorInvalidValue;
  if (bytes == 0) return cudaSuccess;
  if (bytes > engine().memory_of(p->device).room()) return cudaErrorMemoryAllocation;
  const std::size_t rounded = round_up(bytes, kAlignment);
  pay_launch(e);
  e.apply_default_stream_rules(*s);

  std::uintptr_t begin = p->take(*s, rounded);
  if (!begin) {  // what other pools of the device keep for themselves
    for (StreamPool& other : pools().pools) {
      if (other.device == p->device) other.shrink(0);
    }
    begin = p->take(*s, rounded);
  }
  if (!begin) return cudaErrorMemoryAllocation;
  *address = reinterpret_cast<void*>(begin);
  mark_known(*address, rounded, false);
  return cudaSuccess;
}

cudaError_t free_async(void* address, StreamHandle stream) {
  auto [e, lock, s] = locked(stream);
  if (!s) return cudaErrorInvalidResourceHandle;
  if (!address) return cudaSuccess;
  if (s->capture) {
    not_supported("libcudart", "cudaFreeAsync in a stream capture");
    return s->capture->refuse(cudaErrorNotSupported);
  }
  StreamPool* p = owner_of(reinterpret_cast<std::uintptr_t>(address));
  if (!p) return cudaErrorInvalidValue;
  pay_launch(e);
  p->put_back(reinterpret_cast<std::uintptr_t>(address), e.mark(*s), s->index);
  return cudaSuccess;
}

}  // namespace tidemark::device
