// Memory that this process shares with others (CUDA IPC): the file behind its device memory, which
// others open through /proc. The file has the bytes of device memory; for each shared byte a flag
// that says if it is known (known.h); a table of the shared things with serial numbers, which show
// that a handle is outdated; and the times of signals (signals.h).
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "harness/virtual/device/address_space.h"
#include "harness/virtual/device/device.h"

namespace tidemark::device {

/// An entry of the table, of which other processes have a view.
struct alignas(64) SharedEntry {
  std::atomic<std::uint64_t> serial;  // of the thing; 0: there is none any more
  // An event: how many records were called and carried out, the last one that a process has waited
  // for; the time and the process of the latest.
  std::atomic<std::uint64_t> called, carried, waited_for;
  std::atomic<Ns> time;
  std::atomic<std::int32_t> caller, writer;
  std::int32_t device;  // exported physical memory, and where it is in the file
  std::uint64_t place, bytes;
};
inline constexpr std::size_t kSharedEntries = 1 << 18;

/// The first part of the 64 bytes of a handle (cudaIpcMemHandle_t, cudaIpcEventHandle_t).
struct SharedHandle {
  std::uint64_t token = 0;  // of the process
  std::int32_t process = 0, file = -1;
  std::uint32_t entry = 0;
  std::int32_t device = 0;
  std::uint64_t serial = 0, place = 0, bytes = 0;
  Ns now = 0;  // of the host when it made the handle: another process opens it later
};
static_assert(sizeof(SharedHandle) <= 64 && sizeof(SharedEntry) == 128);

/// Place of the time of the signal at a place: 8 bytes for each word of 4.
constexpr std::uint64_t time_of_signal(std::uint64_t place) { return 3 * kFilePart + 2 * place; }

/// Puts a thing into this process's table, and writes the parts of its handle that name process and
/// entry. Null: there is no file, or the table is full.
SharedEntry* share(SharedHandle& handle);
/// Others can no longer open it.
void unshare(const SharedHandle& handle);

/// Another process, by its file. Its memory stays, even if it ends, while this exists.
struct SharingProcess {
  std::int32_t process;
  int number;  // of the file there
  int file = -1;
  SharedEntry* table = nullptr;
  ~SharingProcess();
  bool has_ended() const;
};
/// Null where the process has ended, is out of reach, or no longer has what the handle names.
std::shared_ptr<SharingProcess> find_process(const SharedHandle& handle);
bool is_mine(const SharedHandle& handle);

/// The file once more, opened at the entry: to pass to other processes, which find the entry there
/// even when this process has ended. -1: the system refuses.
int open_at(const SharedHandle& handle);
/// The entry of such a file; false where it is none.
bool read_at(int descriptor, SharedHandle& handle);
/// The device of this process that stands for the other process's device.
int device_here(int device);

/// From now on it is in the file whether a byte of [begin, begin + bytes) of this address space is
/// known; `place` is that of these bytes in the file. False: the system refuses (known.cpp).
bool share_known(std::uintptr_t begin, std::size_t bytes, int file, std::uint64_t place);
void unshare_known(std::uintptr_t begin);

}  // namespace tidemark::device
