#include "harness/virtual/recorder/python_stacks.h"

#include "harness/virtual/recorder/written_lines.h"

namespace tidemark::recorder {
namespace {

struct ThreadStart {
  const PythonStacks* stacks = nullptr;  // a child of a fork has others
  Number stack = 0;
};
thread_local ThreadStart thread_start;

}  // namespace

std::size_t PythonStacks::Hash::operator()(const Key& key) const {
  const auto& [caller, code, instruction, file, lines] = key;
  return mixed(mixed(reinterpret_cast<std::uintptr_t>(code), caller),
               static_cast<std::size_t>(instruction));
}

Number PythonStacks::pushed(Number caller, const PythonPlace& place) {
  if (caller >= called_.size()) called_.resize(caller + 1);
  if (StackFrame& called = called_[caller]; called.stack == 0 || called.place != place)
    called = {place, numbered(caller, place)};
  return called_[caller].stack;
}

Number PythonStacks::numbered(Number caller, const PythonPlace& place) {
  const Key key{caller, place.code, place.instruction, place.file, place.lines};
  if (const auto known = stacks_.find(key); known != stacks_.end()) return known->second;
  const PythonLine line = line_of(place);
  const auto on = [&](Number below, const PythonLine& frame) {
    return names_.stack(below, frame.function, frame.file,
                        static_cast<Number>(frame.line < 0 ? 0 : frame.line));
  };
  Number stack = caller;
  for (const PythonLine& frame : behind(line)) stack = on(stack, frame);
  stack = on(stack, line);
  constexpr std::size_t kMost = 1 << 17;  // programs that make code at run time
  if (stacks_.size() >= kMost) stacks_.clear();
  stacks_.emplace(key, stack);
  return stack;
}

void PythonStacks::starts_thread(Number stack) { thread_start = {this, stack}; }

Number PythonStacks::now(Number caller) {
  if (caller == 0 && thread_start.stacks == this) caller = thread_start.stack;
  python_places(places_);
  if (caller_ != caller) last_.clear();
  caller_ = caller;
  // Most frames are those of the stack before.
  std::size_t same = 0;
  while (same < last_.size() && same < places_.size() &&
         last_[same].place == places_[places_.size() - 1 - same])
    ++same;
  last_.resize(same);
  for (std::size_t i = same; i < places_.size(); ++i) {
    const PythonPlace& place = places_[places_.size() - 1 - i];
    last_.push_back({place, pushed(last_.empty() ? caller : last_.back().stack, place)});
  }
  return last_.empty() ? caller : last_.back().stack;
}

}  // namespace tidemark::recorder
