// The races found: one entry a pair of operators, streams and phases, in the order in which they
// were met.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace tidemark::race {

struct Side {
  std::string op, stream, phase, shape;
  bool write = false;
  std::uint32_t lane = 0;   // its stream, by number
  std::uint64_t place = 0;  // among the stream's operations

  void meet_again(const Side& later) {
    lane = later.lane;
    place = later.place;
  }
};

struct Finding {
  Side first, second;       // lane and place: of the last time
  std::uint64_t bytes = 0;  // of the first time
  std::uint64_t count = 1;
  std::string explanation;
};

class Findings {
 public:
  /// Whether this pair is new; `explain` is asked only then. `operation` tells apart two reports
  /// about one operation, which count once.
  template <class Explain>
  void add(const Side& first, const Side& second, const char* kind, std::uint64_t bytes,
           std::uint64_t operation, Explain explain) {
    Seen& seen = seen_[key(first, second, kind)];
    if (seen.operation == operation && seen.place >= 0) return;
    seen.operation = operation;
    if (seen.place >= 0) {
      Finding& finding = all_[static_cast<std::size_t>(seen.place)];
      ++finding.count;
      finding.first.meet_again(first);
      finding.second.meet_again(second);
    } else if (all_.size() < kMost) {
      seen.place = static_cast<std::int64_t>(all_.size());
      all_.push_back({first, second, bytes, 1, explain()});
    } else {
      seen_.erase(key(first, second, kind));
    }
  }
  const std::vector<Finding>& all() const { return all_; }
  void clear() { *this = {}; }

 private:
  static constexpr std::size_t kMost = 100;
  struct Seen {
    std::int64_t place = -1;
    std::uint64_t operation = 0;
  };
  static std::string key(const Side& first, const Side& second, const char* kind) {
    std::string text = kind;
    for (const Side* side : {&first, &second})
      text += "\n" + side->op + "\n" + side->stream + "\n" + side->phase +
              (side->write ? "\nw" : "\nr");
    return text;
  }
  std::vector<Finding> all_;
  std::map<std::string, Seen> seen_;
};

}  // namespace tidemark::race
