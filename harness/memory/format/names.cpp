#include "harness/memory/format/names.h"

#include "harness/memory/format/format.h"

namespace tidemark::recorder {
namespace {

void begin(std::string& entry, Tag tag) { entry += static_cast<char>(tag); }

}  // namespace

Number Names::string(std::string_view text) {
  if (text.empty()) return 0;
  if (const auto known = strings_.find(text); known != strings_.end()) return known->second;
  const auto number = static_cast<Number>(strings_.size() + 1);
  strings_.emplace(text, number);
  begin(entries_, Tag::string);
  put_text(entries_, text);
  return number;
}

Number Names::stack(Number caller, std::string_view function, std::string_view file, Number line) {
  const Number name = string(function), where = string(file);
  const auto [frame, is_new] =
      frames_.try_emplace({name, where, line}, static_cast<Number>(frames_.size() + 1));
  if (is_new) {
    begin(entries_, Tag::frame);
    for (const Number one : {name, where, line}) put(entries_, one);
  }
  const auto [stack, added] =
      stacks_.try_emplace({caller, frame->second, 0}, static_cast<Number>(stacks_.size() + 1));
  if (added) {
    begin(entries_, Tag::stack);
    put(entries_, caller);
    put(entries_, frame->second);
  }
  return stack->second;
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
