// Numbers of strings, frames, stacks and autograd's nodes in a record. Each is written once.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "harness/memory/format/entries.h"

namespace tidemark::recorder {

using Number = std::uint32_t;

/// A part mixed into a hash.
inline std::size_t mixed(std::size_t hash, std::size_t part) {
  hash = (hash ^ part) * 0x9E3779B97F4A7C15ULL;
  return hash ^ (hash >> 29U);
}

class Names {
 public:
  /// Entries that define new numbers are appended to `entries`.
  explicit Names(std::string& entries) : entries_(entries) {}

  Number string(std::string_view text);
  /// The stack of this frame on top of the stack `caller`; 0 is the empty stack.
  Number stack(Number caller, std::string_view function, std::string_view file, Number line);
  /// A node of autograd by its name and the place that made it: `within` is the node that ran
  /// there.
  Number node(std::string_view name, Number stack, Number module, Number within);

 private:
  using Three = std::array<Number, 3>;
  using Four = std::array<Number, 4>;
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const Three& key) const { return mixed(mixed(key[0], key[1]), key[2]); }
    std::size_t operator()(const Four& key) const {
      return mixed((*this)(Three{key[0], key[1], key[2]}), key[3]);
    }
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };

  std::string& entries_;
  std::unordered_map<std::string, Number, Hash, std::equal_to<>> strings_;
  std::unordered_map<Three, Number, Hash> frames_;  // function, file, line
  std::unordered_map<Three, Number, Hash> stacks_;  // caller's stack, frame, 0
  std::unordered_map<Four, Number, Hash> nodes_;    // name, stack, module, within
};

}  // namespace tidemark::recorder
