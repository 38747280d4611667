#include "harness/virtual/recorder/names.h"

#include "harness/virtual/recorder/format.h"

namespace tidemark::recorder {
namespace {

void begin(std::string& entry, Tag tag) { entry += static_cast<char>(tag); }

std::size_t mixed(std::size_t hash, std::size_t part) {
  return (hash ^ part) * 0x9E3779B97F4A7C15ULL;
}

struct ThreadStart {
  const Names* names = nullptr;  // a child of a fork has others
  Number stack = 0;
};
thread_local ThreadStart thread_start;

}  // namespace

std::size_t Names::Hash::operator()(const Key& key) const {
  const auto& [caller, code, instruction, file, lines] = key;
  const std::size_t hash = mixed(mixed(reinterpret_cast<std::uintptr_t>(code), caller),
                                 static_cast<std::size_t>(instruction));
  return hash ^ (hash >> 29U);
}

std::size_t Names::Hash::operator()(const Three& key) const {
  const std::size_t hash = mixed(mixed(key[0], key[1]), key[2]);
  return hash ^ (hash >> 29U);
}

std::size_t Names::Hash::operator()(const Four& key) const {
  return mixed((*this)(Three{key[0], key[1], key[2]}), key[3]);
}

Number Names::string(std::string_view text) {
  if (text.empty()) return 0;
  if (const auto known = strings_.find(text); known != strings_.end()) return known->second;
  const auto number = static_cast<Number>(strings_.size() + 1);
  strings_.emplace(text, number);
  begin(entries_, Tag::string);
  put_text(entries_, text);
  return number;
}

Number Names::pushed(Number caller, const PythonPlace& place) {
  if (caller >= called_.size()) called_.resize(caller + 1);
  if (StackFrame& called = called_[caller]; called.stack == 0 || called.place != place)
    called = {place, numbered(caller, place)};
  return called_[caller].stack;
}

Number Names::numbered(Number caller, const PythonPlace& place) {
  const Key key{caller, place.code, place.instruction, place.file, place.lines};
  if (const auto known = stacks_.find(key); known != stacks_.end()) return known->second;
  const PythonLine line = line_of(place);
  const Number function = string(line.function), file = string(line.file);
  const Number stack =
      stack_of(caller, function, file, static_cast<Number>(line.line < 0 ? 0 : line.line));
  constexpr std::size_t kMost = 1 << 17;  // programs that make code at run time
  if (stacks_.size() >= kMost) stacks_.clear();
  stacks_.emplace(key, stack);
  return stack;
}

Number Names::stack_of(Number caller, Number function, Number file, Number line) {
  const auto [frame, is_new] =
      frames_.try_emplace({function, file, line}, static_cast<Number>(frames_.size() + 1));
  if (is_new) {
    begin(entries_, Tag::frame);
    for (const Number one : {function, file, line}) put(entries_, one);
  }
  const auto [stack, added] =
      stack_of_.try_emplace({caller, frame->second, 0}, static_cast<Number>(stack_of_.size() + 1));
  if (added) {
    begin(entries_, Tag::stack);
    put(entries_, caller);
    put(entries_, frame->second);
  }
  return stack->second;
}

Number Names::frame(std::string_view function, std::string_view file) {
  if (function.empty()) return 0;
  const Number name = string(function);
  return stack_of(0, name, string(file), 0);
}

void Names::starts_thread(Number stack) { thread_start = {this, stack}; }

Number Names::stack(Number caller) {
  if (caller == 0 && thread_start.names == this) caller = thread_start.stack;
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

Number Names::node(std::string_view name, Number stack, Number module, Number within) {
  const Number text = string(name);
  const auto [node, added] =
      nodes_.try_emplace({text, stack, module, within}, static_cast<Number>(nodes_.size() + 1));
  if (added) {
    begin(entries_, Tag::node);
    for (const Number one : {text, stack, module, within}) put(entries_, one);
  }
  return node->second;
}

}  // namespace tidemark::recorder
