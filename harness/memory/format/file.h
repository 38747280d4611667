// File of a record, as the process that records writes it.
#pragma once

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>

#include "harness/memory/format/format.h"

namespace tidemark::recorder {

/// Bytes are appended through a window of the mapped file, so that the process keeps no more of it
/// than that. Not thread-safe.
class RecordFile {
 public:
  /// Makes the file; throws std::runtime_error in one line.
  explicit RecordFile(const std::string& path);
  /// Of an open file, which is empty, and closed at the end.
  explicit RecordFile(int file);
  ~RecordFile();
  RecordFile(const RecordFile&) = delete;
  RecordFile& operator=(const RecordFile&) = delete;

  Header& header() { return *header_; }
  std::uint64_t size() const { return moment_.size; }
  /// The moment that commit() is to make that of the file.
  Moment& moment() { return moment_; }
  /// Those of a device, to be changed.
  Figures& figures(std::size_t device) {
    devices_ = std::max(devices_, device + 1);
    return moment_.devices[device];
  }
  /// Makes the appended entries and the moment's figures those of the file, all at once.
  void commit();
  /// Appends a whole entry. False if the file system has no room: nothing is written.
  bool append(std::string_view entry);
  /// Replaces bytes of entries.
  void replace(std::uint64_t at, std::string_view bytes) { write(at, bytes); }
  /// The entries from `begin` on become these, which are no longer. At every moment the file has
  /// the ones or the others. False if the file system has no room: nothing has changed.
  bool rewrite(std::uint64_t begin, std::string_view entries);
  /// Bytes of entries; empty if they cannot be read.
  std::string read(std::uint64_t begin, std::uint64_t end) const;
  /// All that is committed: the header and the entries. Empty if it cannot be read.
  std::string committed() const;
  /// In the child of a fork: the file stays the parent's.
  void leave();

 private:
  RecordFile(int file, const std::string& path);
  bool show(std::uint64_t at);
  bool write(std::uint64_t at, std::string_view bytes);
  char* at(std::uint64_t place) { return window_ + (place - window_begin_); }

  int file_ = -1;
  Header* header_ = nullptr;
  char* window_ = nullptr;
  std::uint64_t window_begin_ = 0, room_ = 0;  // of entries
  Moment moment_{};
  std::size_t devices_ = 0;  // with figures
};

}  // namespace tidemark::recorder
