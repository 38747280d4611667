#include "harness/record/memory_history.h"

namespace tidemark {

std::vector<std::string> MemoryHistory::operators() const {
  std::vector<std::string> by_stack;
  for (const auto& stack : stacks)
    by_stack.push_back(stack.empty() ? "" : frames[stack[0]].function);
  return by_stack;
}

void MemoryHistory::set_operators(const std::vector<std::string>& by_stack) {
  frames.clear(), stacks = {{}};
  for (std::size_t i = 1; i < by_stack.size(); ++i) {
    stacks.push_back({static_cast<std::uint32_t>(i - 1)});
    frames.push_back({by_stack[i], "", 0});
  }
}

}  // namespace tidemark
