// Memory as a kernel with pages of 64 KiB gives it (some Linuxes on aarch64), by LD_PRELOAD:
// mappings begin at such pages, and what does not is refused as there.
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

namespace {

constexpr std::uintptr_t kPage = 64 << 10;

bool refused(const void* address, off_t offset = 0) {
  if (reinterpret_cast<std::uintptr_t>(address) % kPage == 0 && offset % off_t{kPage} == 0)
    return false;
  errno = EINVAL;
  return true;
}

void* map(void* address, std::size_t bytes, int protection, int flags, int file, off_t offset) {
  return reinterpret_cast<void*>(
      syscall(SYS_mmap, address, bytes, protection, flags, file, offset));
}

}  // namespace

extern "C" {

[[gnu::visibility("default")]] void* mmap(void* address, std::size_t bytes, int protection,
                                          int flags, int file, off_t offset) noexcept {
  if (flags & (MAP_FIXED | MAP_FIXED_NOREPLACE)) {
    if (refused(address, offset)) return MAP_FAILED;
    return map(address, bytes, protection, flags, file, offset);
  }
  if (refused(nullptr, offset)) return MAP_FAILED;
  void* room = map(nullptr, bytes + kPage, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (room == MAP_FAILED) return room;
  const std::uintptr_t begin = (reinterpret_cast<std::uintptr_t>(room) + kPage - 1) / kPage * kPage;
  return map(reinterpret_cast<void*>(begin), bytes, protection, flags | MAP_FIXED, file, offset);
}

[[gnu::visibility("default")]] int mprotect(void* address, std::size_t bytes,
                                            int protection) noexcept {
  return refused(address) ? -1
                          : static_cast<int>(syscall(SYS_mprotect, address, bytes, protection));
}

[[gnu::visibility("default")]] int madvise(void* address, std::size_t bytes, int advice) noexcept {
  return refused(address) ? -1 : static_cast<int>(syscall(SYS_madvise, address, bytes, advice));
}

[[gnu::visibility("default")]] int munmap(void* address, std::size_t bytes) noexcept {
  return refused(address) ? -1 : static_cast<int>(syscall(SYS_munmap, address, bytes));
}

[[gnu::visibility("default")]] int getpagesize() noexcept { return kPage; }
}
