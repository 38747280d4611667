// The races found: one entry a pair of operators, streams and phases, in the order in which they
// were met.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark::race {

struct Side {
  std::string op, stream, phase, shape;
  bool write = false;
  std::uint32_t lane = 0;   // its stream, by number
  std::uint64_t place = 0;  // among the stream's operations

  bool is_like(const Side& other) const {
    return write == other.write && op == other.op && stream == other.stream && phase == other.phase;
  }
  void meet_again(const Side& later) {
    lane = later.lane;
    place = later.place;
  }
};

struct Finding {
  std::string_view kind;    // lives for ever
  Side first, second;       // lane and place: of the last time
  std::uint64_t bytes = 0;  // of the first time
  std::uint64_t operation;  // the last one that was reported
  std::uint64_t count = 1;
  std::string explanation;
};

class Findings {
 public:
  /// True if this pair is new; `explain` is asked only then. `operation` tells apart two reports
  /// about one operation, which count once.
  template <class Explain>
  void add(const Side& first, const Side& second, std::string_view kind, std::uint64_t bytes,
           std::uint64_t operation, Explain explain) {
    const auto known = std::ranges::find_if(all_, [&](const Finding& f) {
      return f.kind == kind && f.first.is_like(first) && f.second.is_like(second);
    });
    if (known == all_.end()) {
      if (all_.size() < kMost)
        all_.push_back({kind, first, second, bytes, operation, 1, explain()});
    } else if (known->operation != operation) {
      known->operation = operation;
      ++known->count;
      known->first.meet_again(first);
      known->second.meet_again(second);
    }
  }
  const std::vector<Finding>& all() const { return all_; }
  void clear() { all_.clear(); }

 private:
  static constexpr std::size_t kMost = 100;
  std::vector<Finding> all_;
};

}  // namespace tidemark::race
