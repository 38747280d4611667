// Numbers of strings, frames, stacks and autograd's nodes in a record. Each is written once.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "harness/virtual/recorder/entries.h"
#include "harness/virtual/recorder/python_frames.h"

namespace tidemark::recorder {

using Number = std::uint32_t;

/// A frame of Python on a stack.
struct StackFrame {
  PythonPlace place;
  Number stack = 0;  // up to this frame
  bool operator==(const StackFrame&) const = default;
};

class Names {
 public:
  /// Entries that define new numbers are appended to `entries`.
  explicit Names(std::string& entries) : entries_(entries) {}

  Number string(std::string_view text);
  /// The stack of the calling thread on top of the stack `caller`, or of the one that started it.
  Number stack(Number caller = 0);
  /// The stack of one frame, of no Python.
  Number frame(std::string_view function, std::string_view file);
  /// This stack has started the calling thread.
  void starts_thread(Number stack);
  /// The innermost frame of the stack that was numbered last; its number is 0 if it had no frame.
  StackFrame innermost() const { return last_.empty() ? StackFrame{} : last_.back(); }
  /// True if the stack that was numbered last has this frame, at this instruction.
  bool is_below(const StackFrame& frame) const {
    return std::find(last_.rbegin(), last_.rend(), frame) != last_.rend();
  }
  /// A node of autograd by its name and the place that made it: `within` is the node that ran
  /// there.
  Number node(std::string_view name, Number stack, Number module, Number within);

 private:
  using Key = std::tuple<Number, const char*, std::int64_t, const void*, const void*>;
  using Three = std::array<Number, 3>;
  using Four = std::array<Number, 4>;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const Key& key) const;
    std::size_t operator()(const Three& key) const;
    std::size_t operator()(const Four& key) const;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  Number pushed(Number caller, const PythonPlace& place);
  Number stack_of(Number caller, Number function, Number file, Number line);
  Number numbered(Number caller, const PythonPlace& place);

  std::string& entries_;
  std::unordered_map<std::string, Number, Hash, std::equal_to<>> strings_;
  std::unordered_map<Three, Number, Hash> frames_;  // function, file, line
  std::unordered_map<Key, Number, Hash> stacks_;
  std::vector<StackFrame> called_;  // by the number of the caller's stack: what it called last
  std::unordered_map<Three, Number, Hash> stack_of_;  // caller's stack, frame, 0
  std::unordered_map<Four, Number, Hash> nodes_;      // name, stack, module, within
  std::vector<PythonPlace> places_;
  std::vector<StackFrame> last_;  // outermost first
  Number caller_ = 0;             // of the outermost one
};

}  // namespace tidemark::recorder
