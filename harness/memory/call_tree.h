// Python stacks that share their callers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "harness/record/memory_history.h"

namespace tidemark {

/// A call is a frame and the call that made it. Call 0 is the begin of every stack, without a
/// frame.
class CallTree {
 public:
  struct Call {
    std::uint32_t caller = 0, frame = 0;
  };

  /// The number of a frame, which is there once.
  std::uint32_t frame(const StackFrame& one);
  /// The number of a frame's call by `caller`.
  std::uint32_t call(std::uint32_t caller, std::uint32_t frame);
  /// The calls that a stack of frames would add, the outermost first.
  std::size_t missing(const std::vector<std::uint32_t>& frames) const;

  const std::vector<StackFrame>& frames() const { return frames_; }
  const std::vector<Call>& calls() const { return calls_; }
  /// The frames of a call and of its callers, the outermost first.
  std::vector<std::uint32_t> stack(std::uint32_t call) const;

 private:
  std::vector<StackFrame> frames_;
  std::vector<Call> calls_{{}};
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::uint32_t> known_frames_;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> known_calls_;
};

}  // namespace tidemark
