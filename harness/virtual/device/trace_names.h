// Names in a trace, each kept once: of a training step's ten thousand operations few names differ.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>

namespace tidemark::device {

class TraceNames {
 public:
  /// The name, which stays where it is until forget().
  const char* of(std::string_view name) {
    auto known = names_.find(name);
    if (known == names_.end()) known = names_.emplace(name).first;
    return known->c_str();
  }
  /// "outer/inner", of two names of of().
  const char* joined(const char* outer, const char* inner) {
    const auto [known, is_new] = joined_.try_emplace({outer, inner}, nullptr);
    if (is_new) known->second = of(std::string(outer) + "/" + inner);
    return known->second;
  }
  /// No name is used any more. They are dropped where a program has made too many of them.
  void forget() {
    constexpr std::size_t kMost = 1 << 16;
    if (names_.size() + joined_.size() <= kMost) return;
    names_.clear();
    joined_.clear();
  }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_set<std::string, Hash, std::equal_to<>> names_;
  std::map<std::pair<const char*, const char*>, const char*> joined_;
};

}  // namespace tidemark::device
