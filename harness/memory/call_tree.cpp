#include "harness/memory/call_tree.h"

#include <algorithm>

namespace tidemark {

std::uint32_t CallTree::frame(const StackFrame& one) {
  const auto number = static_cast<std::uint32_t>(frames_.size());
  const auto [at, fresh] = known_frames_.try_emplace({one.function, one.file, one.line}, number);
  if (fresh) frames_.push_back(one);
  return at->second;
}

std::uint32_t CallTree::call(std::uint32_t caller, std::uint32_t frame) {
  const auto number = static_cast<std::uint32_t>(calls_.size());
  const auto [at, fresh] = known_calls_.try_emplace({caller, frame}, number);
  if (fresh) calls_.push_back({caller, frame});
  return at->second;
}

std::size_t CallTree::missing(const std::vector<std::uint32_t>& frames) const {
  std::uint32_t caller = 0;
  for (std::size_t i = 0; i < frames.size(); ++i) {
    const auto known = known_calls_.find({caller, frames[i]});
    if (known == known_calls_.end()) return frames.size() - i;
    caller = known->second;
  }
  return 0;
}

std::vector<std::uint32_t> CallTree::stack(std::uint32_t call) const {
  std::vector<std::uint32_t> out;
  for (; call != 0; call = calls_[call].caller) out.push_back(calls_[call].frame);
  std::ranges::reverse(out);
  return out;
}

}  // namespace tidemark
