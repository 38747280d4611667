// Limits the size of a record when the steps of the training do not repeat.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "harness/memory/format/file.h"

namespace tidemark::recorder {

/// Keeps the first steps of a record, up to kWhole bytes, the last kLast steps, and those in which
/// a device reached its highest peak or ran out of memory last; the steps between them are
/// condensed (condense.h) each time that they have grown by kGrowth bytes. A step with the count of
/// its repetitions is one with them.
class Bound {
 public:
  static constexpr std::uint64_t kWhole = 8 << 20, kGrowth = 4 << 20;
  static constexpr std::size_t kLast = 8;

  explicit Bound(RecordFile& file, std::uint64_t whole = kWhole, std::uint64_t growth = kGrowth)
      : file_(file), whole_(whole), growth_(growth), limit_(growth) {}

  /// A step has ended at the file's end, and the next begins there. `repeated` steps, the last
  /// ones, have got a count behind them, with which they are one now; 0: none. While it `counts`,
  /// nothing is moved.
  void next(std::size_t repeated, bool counts);

 private:
  struct Part {
    std::uint64_t begin = 0;    // in the file
    std::uint32_t reached = 0;  // devices, a bit each, that reached a new peak or ran out of memory
    bool is_condensed = false;
  };
  std::uint32_t reached();
  std::vector<bool> kept() const;
  void condense();

  RecordFile& file_;
  const std::uint64_t whole_, growth_;
  std::uint64_t limit_;      // of the parts together
  std::vector<Part> parts_;  // behind the first steps, the one that ends last
  bool given_up_ = false;
  std::array<std::int64_t, kDevices> peaks_{}, ooms_{};
};

}  // namespace tidemark::recorder
