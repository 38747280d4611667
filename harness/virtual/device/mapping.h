// Virtual memory management (cuMemAddressReserve, cuMemCreate, cuMemMap ...): physical memory and
// addresses apart. Errors are the driver's numbers, which are the runtime's.
#pragma once

#include <driver_types.h>

#include <cstddef>
#include <cstdint>

#pragma GCC visibility push(default)
namespace tidemark::device {

cudaError_t reserve_addresses(std::uintptr_t* begin, std::size_t bytes, std::size_t alignment,
                              std::uintptr_t wish);
cudaError_t free_addresses(std::uintptr_t begin, std::size_t bytes);
/// Physical memory of a device, counted in its capacity until it is released and mapped nowhere.
cudaError_t create_physical(std::uint64_t* handle, std::size_t bytes, int device);
cudaError_t release_physical(std::uint64_t handle);
cudaError_t map_physical(std::uintptr_t begin, std::size_t bytes, std::size_t offset,
                         std::uint64_t handle);
cudaError_t unmap_physical(std::uintptr_t begin, std::size_t bytes);
/// Mapped memory is accessible only from here on.
cudaError_t set_access(std::uintptr_t begin, std::size_t bytes, bool readable, bool writable);
/// The handle mapped at an address, with one more reference to it.
cudaError_t retain_physical(std::uint64_t* handle, std::uintptr_t address);
cudaError_t physical_device(std::uint64_t handle, int* device);
/// A file descriptor by which another process (or this one) imports the memory; the caller closes
/// it. The memory keeps its place from then on, since it is not known who has imported it.
cudaError_t export_physical(std::uint64_t handle, int* descriptor);
/// Imported memory counts for no device: it is the exporter's.
cudaError_t import_physical(std::uint64_t* handle, int descriptor);

}  // namespace tidemark::device
#pragma GCC visibility pop

namespace tidemark::device {
// Engine's lock held:
/// The device whose memory is mapped and accessible all along this range, or -1.
int mapped_device(std::uintptr_t begin, std::size_t bytes);
/// Maps memory of another process, at the highest free addresses: their order is that of the calls,
/// and the lowest ones are those of the program's own. The file is this process's from now on. 0:
/// the system refuses.
std::uintptr_t map_shared(int file, std::uint64_t place, std::size_t bytes, int device);
void unmap_shared(std::uintptr_t begin);
/// The file behind an address of device memory, and the place there (shared.h).
struct FilePlace {
  int file;  // -1: there is none
  std::uint64_t bytes_before;
};
FilePlace place_of_mapped(std::uintptr_t address);
/// The mapping around an address.
bool mapped_range(std::uintptr_t address, std::uintptr_t* begin, std::size_t* bytes);
}  // namespace tidemark::device
