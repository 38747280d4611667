// Locks of files (flock), which end with the process that holds them.
#pragma once

#include <sys/file.h>

#include <filesystem>

namespace tidemark {

/// An open file, closed at the end, and with it the lock that it holds.
class Held {
 public:
  explicit Held(int file = -1) : file_(file) {}
  Held(Held&& other) noexcept : file_(other.file_) { other.file_ = -1; }
  Held& operator=(Held&& other) noexcept;
  ~Held();
  explicit operator bool() const { return file_ >= 0; }
  int file() const { return file_; }

 private:
  int file_;
};

/// Locks a file, which is made if it is not there. `how` is that of flock: LOCK_EX waits for
/// another process, LOCK_EX | LOCK_NB does not. False, with errno, where it cannot be locked.
Held lock_file(const std::filesystem::path& path, int how);

/// True if a process holds the lock of a file; false if there is no such file.
bool is_locked(const std::filesystem::path& path);

}  // namespace tidemark
