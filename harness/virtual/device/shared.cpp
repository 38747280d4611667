#include "harness/virtual/device/shared.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "harness/virtual/device/attributes.h"
#include "harness/virtual/device/engine.h"
#include "harness/virtual/device/immortal.h"

namespace tidemark::device {
namespace {

constexpr std::uint64_t kTable = 2 * kFilePart;

// A process that has ended has no files there, even before its parent has asked for it.
std::string path_of(std::int32_t process, int file) {
  return "/proc/" + std::to_string(process) + "/fd/" + std::to_string(file);
}

SharedEntry* map_table(int file) {
  void* at = mmap(nullptr, kSharedEntries * sizeof(SharedEntry), PROT_READ | PROT_WRITE,
                  MAP_SHARED | MAP_NORESERVE, file, kTable);
  return at == MAP_FAILED ? nullptr : static_cast<SharedEntry*>(at);
}

// The first entry of a table is none: its serial is the token of the process.
struct Mine {
  std::mutex mutex;
  std::int32_t process = 0;
  SharedEntry* table = nullptr;
  std::uint64_t token = 0, serial = 0;
  std::uint32_t entries = 1;
  std::vector<std::uint32_t> unused;

  Mine() { begin(); }
  void begin() {
    process = getpid();
    table = memory_file() < 0 ? nullptr : map_table(memory_file());
    entries = 1;
    unused.clear();
    if (getrandom(&token, sizeof token, 0) != sizeof token) table = nullptr;
    if (table) table->serial = token;
  }
};
Mine& mine() { return immortal<Mine>(); }

struct Others {
  std::mutex mutex;
  std::map<std::uint64_t, std::weak_ptr<SharingProcess>> by_token;
};
Others& others() { return immortal<Others>(); }

std::shared_ptr<SharingProcess> open_process(const SharedHandle& handle) {
  auto partner = std::make_shared<SharingProcess>();
  partner->process = handle.process;
  partner->number = handle.file;
  partner->file =
      open(path_of(handle.process, handle.file).c_str(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
  struct stat facts {};  // of another file, if the number of the process has a new owner
  if (partner->file < 0 || fstat(partner->file, &facts) != 0 ||
      static_cast<std::uint64_t>(facts.st_size) != kFileBytes)
    return nullptr;
  partner->table = map_table(partner->file);
  return partner->table && partner->table->serial == handle.token ? partner : nullptr;
}

}  // namespace

SharedEntry* share(SharedHandle& handle) {
  Mine& m = mine();
  const std::lock_guard lock(m.mutex);
  if (m.process != getpid()) m.begin();  // forked
  if (!m.table || (m.unused.empty() && m.entries == kSharedEntries)) return nullptr;
  if (m.unused.empty()) m.unused.push_back(m.entries++);
  handle.token = m.token;
  handle.process = m.process;
  handle.file = memory_file();
  handle.entry = m.unused.back();
  handle.serial = ++m.serial;
  m.unused.pop_back();
  SharedEntry& entry = m.table[handle.entry];
  entry.called = entry.carried = entry.waited_for = 0;
  entry.caller = entry.writer = 0;
  entry.serial = handle.serial;
  return &entry;
}

void unshare(const SharedHandle& handle) {
  Mine& m = mine();
  const std::lock_guard lock(m.mutex);
  if (m.process != getpid()) return;
  m.table[handle.entry].serial = 0;
  m.unused.push_back(handle.entry);
}

int open_at(const SharedHandle& handle) {
  SharedEntry& entry = mine().table[handle.entry];
  entry.device = handle.device;
  entry.place = handle.place;
  entry.bytes = handle.bytes;
  const std::string path = "/proc/self/fd/" + std::to_string(memory_file());
  const int file = open(path.c_str(), O_RDWR | O_CLOEXEC);
  lseek(file, static_cast<off_t>(kTable + handle.entry * sizeof entry), SEEK_SET);
  return file;
}

bool read_at(int descriptor, SharedHandle& handle) {
  struct stat facts {};
  const off_t at = lseek(descriptor, 0, SEEK_CUR);
  alignas(SharedEntry) unsigned char read[sizeof(SharedEntry)];
  if (fstat(descriptor, &facts) != 0 || static_cast<std::uint64_t>(facts.st_size) != kFileBytes ||
      at <= static_cast<off_t>(kTable) || at % static_cast<off_t>(sizeof read) != 0 ||
      pread(descriptor, read, sizeof read, at) != sizeof read)
    return false;
  const auto& entry = *reinterpret_cast<const SharedEntry*>(read);
  handle.device = entry.device;
  handle.place = entry.place;
  handle.bytes = entry.bytes;
  return entry.serial != 0 && handle.bytes > 0;
}

int device_here(int device) { return device_exists(device) ? device : current_device(); }

SharingProcess::~SharingProcess() {
  if (table) munmap(table, kSharedEntries * sizeof(SharedEntry));
  if (file >= 0) close(file);
}

bool SharingProcess::has_ended() const {
  return access(path_of(process, number).c_str(), F_OK) != 0;
}

std::shared_ptr<SharingProcess> find_process(const SharedHandle& handle) {
  Others& o = others();
  const std::lock_guard lock(o.mutex);
  std::weak_ptr<SharingProcess>& kept = o.by_token[handle.token];
  std::shared_ptr<SharingProcess> partner = kept.lock();
  if (!partner || partner->has_ended()) partner = open_process(handle);
  if (!partner || handle.entry >= kSharedEntries ||
      partner->table[handle.entry].serial != handle.serial)
    return nullptr;
  kept = partner;
  return partner;
}

bool is_mine(const SharedHandle& handle) { return handle.token == mine().token; }

}  // namespace tidemark::device
