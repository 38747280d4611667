// Nesting of JSON from others: what reads, copies or writes its values goes down by recursion.
#pragma once

#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tidemark {

inline constexpr std::size_t kDeepestJson = 1000;
inline constexpr const char* kTooDeep = "is nested more than 1,000 deep";

/// True if brackets lie in one another deeper than kDeepestJson. The text may be any.
inline bool is_too_deep(std::string_view json) {
  std::size_t depth = 0;
  bool quoted = false;
  for (std::size_t i = 0; i < json.size(); ++i) {
    const char c = json[i];
    if (quoted && c == '\\') {
      ++i;
    } else if (c == '"') {
      quoted = !quoted;
    } else if (!quoted && (c == '[' || c == '{')) {
      if (++depth > kDeepestJson) return true;
    } else if (!quoted && (c == ']' || c == '}') && depth > 0) {
      --depth;
    }
  }
  return false;
}

/// Throws std::runtime_error in one line that begins with `where`.
inline void refuse_deep(std::string_view json, const std::string& where) {
  if (is_too_deep(json)) throw std::runtime_error(where + ": " + kTooDeep);
}

}  // namespace tidemark
