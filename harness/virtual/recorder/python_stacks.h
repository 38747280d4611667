// Stacks of Python's frames in a record: the numbers of those on which a thread stands.
#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <tuple>
#include <unordered_map>
#include <vector>

#include "harness/memory/format/names.h"
#include "harness/virtual/recorder/python_frames.h"

namespace tidemark::recorder {

/// A frame of Python on a stack.
struct StackFrame {
  PythonPlace place;
  Number stack = 0;  // up to this frame
  bool operator==(const StackFrame&) const = default;
};

class PythonStacks {
 public:
  explicit PythonStacks(Names& names) : names_(names) {}

  /// The stack of the calling thread on top of the stack `caller`, or of the one that started it.
  Number now(Number caller = 0);
  /// This stack has started the calling thread.
  void starts_thread(Number stack);
  /// The innermost frame of the stack that was numbered last; its number is 0 if it had no frame.
  StackFrame innermost() const { return last_.empty() ? StackFrame{} : last_.back(); }
  /// True if the stack that was numbered last has this frame, at this instruction.
  bool is_below(const StackFrame& frame) const {
    return std::find(last_.rbegin(), last_.rend(), frame) != last_.rend();
  }

 private:
  using Key = std::tuple<Number, const char*, std::int64_t, const void*, const void*>;
  struct Hash {
    std::size_t operator()(const Key& key) const;
  };
  Number pushed(Number caller, const PythonPlace& place);
  Number numbered(Number caller, const PythonPlace& place);

  Names& names_;
  std::unordered_map<Key, Number, Hash> stacks_;
  std::vector<StackFrame> called_;  // by the number of the caller's stack: what it called last
  std::vector<PythonPlace> places_;
  std::vector<StackFrame> last_;  // outermost first
  Number caller_ = 0;             // of the outermost one
};

}  // namespace tidemark::recorder
