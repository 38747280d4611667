#include "harness/memory/format/file.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "harness/virtual/device/new_file.h"

namespace tidemark::recorder {
namespace {

constexpr std::uint64_t kWindow = 1 << 20;

void* map(int file, std::uint64_t offset, std::uint64_t bytes) {
  void* memory =
      mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, static_cast<off_t>(offset));
  return memory == MAP_FAILED ? nullptr : memory;
}

}  // namespace

RecordFile::RecordFile(const std::string& path)
    : RecordFile(create_first(path.c_str(), O_RDWR, 0644), path) {}
RecordFile::RecordFile(int file) : RecordFile(file, "a record in memory") {}

RecordFile::RecordFile(int file, const std::string& path) : file_(file) {
  int error = file_ < 0 ? errno : posix_fallocate(file_, 0, static_cast<off_t>(kHeader));
  if (error == 0) {
    header_ = static_cast<Header*>(map(file_, 0, kHeader));
    error = header_ == nullptr ? errno : 0;
  }
  if (error == 0) return;
  if (file_ >= 0) close(file_), unlink(path.c_str());
  throw std::runtime_error(path + ": " + std::strerror(error));
}

RecordFile::~RecordFile() { leave(); }

void RecordFile::leave() {
  if (header_ != nullptr) munmap(header_, kHeader);
  if (window_ != nullptr) munmap(window_, kWindow);
  if (file_ >= 0) close(file_);
  header_ = nullptr, window_ = nullptr, file_ = -1;
}

// Room is taken before it is written to: a store into a hole of a full file system ends the
// process.
bool RecordFile::show(std::uint64_t place) {
  const std::uint64_t begin = place / kWindow * kWindow;
  if (window_ != nullptr && begin == window_begin_) return true;
  if (begin + kWindow > room_) {
    const auto offset = static_cast<off_t>(kHeader + begin);
    if (posix_fallocate(file_, offset, static_cast<off_t>(kWindow)) != 0) return false;
    room_ = begin + kWindow;
  }
  void* memory = map(file_, kHeader + begin, kWindow);
  if (memory == nullptr) return false;
  if (window_ != nullptr) munmap(window_, kWindow);
  window_ = static_cast<char*>(memory);
  window_begin_ = begin;
  return true;
}

bool RecordFile::write(std::uint64_t place, std::string_view bytes) {
  while (!bytes.empty()) {
    if (!show(place)) return false;
    const std::uint64_t count =
        std::min<std::uint64_t>(bytes.size(), window_begin_ + kWindow - place);
    std::memcpy(at(place), bytes.data(), count);
    place += count;
    bytes.remove_prefix(count);
  }
  return true;
}

bool RecordFile::append(std::string_view entry) {
  if (!write(moment_.size, entry)) return false;
  moment_.size += entry.size();
  return true;
}

bool RecordFile::rewrite(std::uint64_t begin, std::string_view entries) {
  const std::uint64_t end = moment_.size;
  if (!append(entries)) return false;
  moment_.left_from = begin, moment_.left_to = end;
  commit();
  write(begin, entries);  // there is room: it was taken
  moment_.left_from = moment_.left_to = 0;
  moment_.size = begin + entries.size();
  commit();
  return true;
}

std::string RecordFile::read(std::uint64_t begin, std::uint64_t end) const {
  std::string out(end - begin, '\0');
  for (std::size_t done = 0; done < out.size();) {
    const ssize_t count = pread(file_, out.data() + done, out.size() - done,
                                static_cast<off_t>(kHeader + begin + done));
    if (count <= 0) return {};
    done += static_cast<std::size_t>(count);
  }
  return out;
}

std::string RecordFile::committed() const {
  const std::string entries = read(0, moment_.size);
  if (entries.size() != moment_.size) return {};
  return std::string(reinterpret_cast<const char*>(header_), kHeader) + entries;
}

void RecordFile::commit() {
  const std::uint64_t next = header_->now.load(std::memory_order_relaxed) ^ 1U;
  std::memcpy(&header_->moments[next], &moment_,
              offsetof(Moment, devices) + devices_ * sizeof(Figures));
  header_->now.store(next, std::memory_order_release);
}

}  // namespace tidemark::recorder
