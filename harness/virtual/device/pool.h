// Stream-ordered memory pools (cudaMallocAsync and its family).
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>

#include "harness/virtual/device/device.h"

#pragma GCC visibility push(default)
namespace tidemark::device {

cudaError_t default_pool(cudaMemPool_t* pool, int device);
cudaError_t current_pool(cudaMemPool_t* pool, int device);
cudaError_t set_current_pool(int device, cudaMemPool_t pool);
cudaError_t create_pool(cudaMemPool_t* pool, int device);
cudaError_t destroy_pool(cudaMemPool_t pool);
/// `value` is an int or a 64-bit count, by attribute.
cudaError_t pool_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, void* value);
cudaError_t set_pool_attribute(cudaMemPool_t pool, cudaMemPoolAttr attribute, const void* value);
cudaError_t set_pool_access(cudaMemPool_t pool, int device, bool accessible);
/// Gives unused memory back until no more than `keep` bytes are reserved.
cudaError_t trim_pool(cudaMemPool_t pool, std::size_t keep);

/// pool null: the current one of the stream's device.
cudaError_t allocate_async(void** address, std::size_t bytes, cudaMemPool_t pool,
                           StreamHandle stream);
cudaError_t free_async(void* address, StreamHandle stream);

}  // namespace tidemark::device
#pragma GCC visibility pop

namespace tidemark::device {
// Engine's lock held:
/// Releases pool memory at a host synchronisation: pools of the device (< 0: of all) above their
/// threshold give back memory that is free and done.
void release_pool_memory(int device);
/// True if memory of a pool lies here, in use or not.
bool is_pool_memory(std::uintptr_t address);
/// cudaFree of pool memory, its device synchronised. False where the address is no pool's.
bool free_from_pool(std::uintptr_t address);
}  // namespace tidemark::device
