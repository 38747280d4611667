// Names in a trace, each kept once: of a training step's ten thousand operations few names differ.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
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
    std::string_view& recent =
        recent_[reinterpret_cast<std::uintptr_t>(name.data()) / alignof(void*) % recent_.size()];
    if (recent.data() != nullptr && recent == name) return recent.data();
    auto known = names_.find(name);
    if (known == names_.end()) known = names_.emplace(name).first;
    recent = *known;
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
    recent_.fill({});
  }

 private:
  struct Hash : std::hash<std::string_view> {
    using is_transparent = void;
  };
  std::unordered_set<std::string, Hash, std::equal_to<>> names_;
  std::array<std::string_view, 256> recent_{};  // of names_, by where the caller has them
  std::map<std::pair<const char*, const char*>, const char*> joined_;
};

}  // namespace tidemark::device
