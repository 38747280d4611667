// Events of a trace in blocks of 512 bytes, and a waste in a line, for tests.
#pragma once

#include <string>

#include "harness/memory/analysis.h"

namespace tidemark::snapshot_testing {

constexpr std::int64_t kBase = 0x7f0000000000;

inline std::int64_t at(int block) { return kBase + 512 * block; }
inline AllocatorEvent event(AllocatorAction action, int block, std::int64_t size,
                            std::uint32_t stack = 0, std::uint32_t module = 0) {
  return {action, at(block), size, 0, 0, stack, module};
}

/// "900 of 1310; 900 layers.*.mlp forward model.py:3", a part each.
inline std::string text_of(const Waste& waste) {
  std::string text =
      (waste.bytes ? std::to_string(*waste.bytes) : "?") + " of " + std::to_string(waste.active);
  for (const Part& part : waste.parts)
    text += "; " + std::to_string(part.bytes) + " " + part.module + " " + part.site;
  return text;
}

}  // namespace tidemark::snapshot_testing
