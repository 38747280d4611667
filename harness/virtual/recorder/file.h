// File of a record, as the process that records writes it.
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "harness/virtual/recorder/format.h"

namespace tidemark::recorder {

/// Bytes are appended through a window of the mapped file, so that the process keeps no more of it
/// than that. Not thread-safe.
class RecordFile {
 public:
  /// Makes the file; throws std::runtime_error in one line.
  explicit RecordFile(const std::string& path);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  Header& header() { return *header_; }
  std::uint64_t size() const { return size_; }
  /// Appends a whole entry and commits it. False if the file system has no room: nothing is
  /// written.
  bool append(std::string_view entry);
  /// Forgets all entries from `size` on.
  void truncate(std::uint64_t size);
  /// Replaces committed bytes.
  void replace(std::uint64_t at, std::string_view bytes);
  /// In the child of a fork: the file stays the parent's.
  void leave();

 private:
  bool show(std::uint64_t at);
  char* at(std::uint64_t place) { return window_ + (place - window_begin_); }

  int file_ = -1;
  Header* header_ = nullptr;
  char* window_ = nullptr;
  std::uint64_t window_begin_ = 0, size_ = 0, room_ = 0;  // of entries
};

}  // namespace tidemark::recorder
