// Events of lists that are still being read, and stacks by what they are.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/record/memory_history.h"

namespace tidemark {

/// The events of one list, in parts: what grows is never copied.
struct TakenEvents {
  static constexpr std::size_t kPart = 1 << 14;
  std::deque<std::vector<AllocatorEvent>> parts;  // all but the last have kPart
  std::size_t items = 0;                          // with those that are no events
  std::optional<std::size_t> moved_to;            // the device

  std::size_t size() const {
    return parts.empty() ? 0 : (parts.size() - 1) * kPart + parts.back().size();
  }
  const AllocatorEvent& at(std::size_t i) const { return parts[i / kPart][i % kPart]; }
  void add(const AllocatorEvent& event) {
    if (parts.empty() || parts.back().size() == kPart) {
      parts.emplace_back();
      if (parts.size() > 1) parts.back().reserve(kPart);  // most traces are short
    }
    parts.back().push_back(event);
  }
};

/// Hash and equality of stacks by their frames.
struct ByFrames {
  const std::vector<std::vector<std::uint32_t>>* all;  // the only copy
  std::size_t operator()(std::uint32_t stack) const {
    const auto& frames = (*all)[stack];
    return std::hash<std::string_view>()(
        {reinterpret_cast<const char*>(frames.data()), frames.size() * sizeof frames[0]});
  }
  bool operator()(std::uint32_t a, std::uint32_t b) const { return (*all)[a] == (*all)[b]; }
};

}  // namespace tidemark
