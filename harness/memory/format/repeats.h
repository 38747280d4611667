// Steps that come again: a training loop repeats itself, and its record would grow for ever.
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>

#include "harness/memory/format/file.h"

namespace tidemark::recorder {

/// Follows the steps of a record. Where the last steps, up to kPeriod of them, are the same as
/// those before them, entry by entry apart from the time, the file keeps a count of those that
/// follow and are the same again. The allocator's state is then that at the end of those that are
/// kept.
class Repeats {
 public:
  static constexpr std::size_t kPeriod = 8;
  static constexpr std::size_t kBytes = 16 << 20;  // of steps that are kept for comparison

  explicit Repeats(RecordFile& file) : file_(file) {}

  /// An entry of the step, without its time.
  void add(std::string_view entry);
  /// The step has defined a name that later steps may refer to: it stays.
  void keep() { step_.defines = true; }
  /// A step ends at the file's end, and the next begins. Returns how many of the last steps will
  /// be counted from now on if they come again; 0: no such repetition begins.
  std::size_t next();
  /// True if steps are being counted.
  bool counts() const { return cycle_.has_value(); }

 private:
  struct Step {
    std::string entries;
    bool defines = false;
    bool too_long = false;  // for a comparison: its entries are forgotten
    bool repeats(const Step& before) const {
      return !defines && !too_long && !before.too_long && entries == before.entries;
    }
  };
  struct Cycle {
    std::size_t period = 0, step = 0;     // the next one of the period
    std::uint64_t count_at = 0, end = 0;  // in the file
  };
  bool repeats(std::size_t period) const;
  void begin_cycle(std::size_t period);
  bool continues();
  void end_cycle();
  void limit();

  RecordFile& file_;
  Step step_;
  std::deque<Step> steps_;  // that are in the file, one after the other
  std::optional<Cycle> cycle_;
};

}  // namespace tidemark::recorder
