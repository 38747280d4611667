// Patterns in texts of programs, read from left to right in one pass: std::regex recurses once a
// character, so that a long text would end the process (ci/structure keeps it out).
#pragma once

#include <charconv>
#include <cstdint>
#include <optional>
#include <string_view>

namespace tidemark {

inline constexpr std::string_view kDecimal = "0123456789";

/// The rest of a text, from which each call takes its beginning.
class Scan {
 public:
  explicit Scan(std::string_view text) : rest_(text) {}
  bool done() const { return rest_.empty(); }
  std::string_view rest() const { return rest_; }

  /// Takes `text` if the rest begins with it.
  bool take(std::string_view text) {
    if (!rest_.starts_with(text)) return false;
    rest_.remove_prefix(text.size());
    return true;
  }
  /// Takes the characters that are in `of`, or those that are not; "" where the first is none.
  std::string_view all_of(std::string_view of) { return cut(rest_.find_first_not_of(of)); }
  std::string_view none_of(std::string_view of) { return cut(rest_.find_first_of(of)); }
  /// Takes a whole number of up to `most` digits, with its sign.
  std::optional<std::int64_t> number(std::size_t most = 15) {
    const std::size_t sign = rest_.starts_with('-') ? 1 : 0;
    const std::size_t digits = rest_.substr(sign).find_first_not_of(kDecimal);
    const std::size_t size = digits == std::string_view::npos ? rest_.size() - sign : digits;
    std::int64_t value = 0;
    if (size == 0 || size > most) return std::nullopt;
    std::from_chars(rest_.data(), rest_.data() + sign + size, value);
    rest_.remove_prefix(sign + size);
    return value;
  }

 private:
  std::string_view cut(std::size_t at) {
    const std::string_view taken = rest_.substr(0, at);
    rest_.remove_prefix(taken.size());
    return taken;
  }

  std::string_view rest_;
};

}  // namespace tidemark
