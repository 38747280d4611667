// Parts of a record's entries (format.h), numbers and texts: how they are written and read.
#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace tidemark::recorder {

/// Appends a number, LEB128; with its sign in the lowest bit; a text, its length and its bytes.
inline void put(std::string& entry, std::uint64_t value) {
  std::array<char, 10> bytes;
  std::size_t count = 0;
  for (; value >= 0x80; value >>= 7U) bytes[count++] = static_cast<char>((value & 0x7FU) | 0x80U);
  bytes[count++] = static_cast<char>(value);
  entry.append(bytes.data(), count);
}
inline void put_signed(std::string& entry, std::int64_t value) {
  const auto bits = static_cast<std::uint64_t>(value);
  put(entry, (bits << 1U) ^ (value < 0 ? ~std::uint64_t{0} : 0));
}
inline void put_text(std::string& entry, std::string_view text) {
  put(entry, text.size());
  entry += text;
}

struct CutOff : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Reads the parts of entries, one after the other. Throws CutOff where one is cut off.
class Entries {
 public:
  explicit Entries(std::string_view bytes) : bytes_(bytes) {}
  bool more() const { return at_ < bytes_.size(); }
  std::size_t place() const { return at_; }
  std::uint8_t byte() {
    if (!more()) throw CutOff("an entry is cut off");
    return static_cast<std::uint8_t>(bytes_[at_++]);
  }
  std::uint64_t number() {
    std::uint64_t out = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const std::uint8_t one = byte();
      out |= std::uint64_t{one & 0x7FU} << shift;
      if ((one & 0x80U) == 0) return out;
    }
    throw CutOff("a number is too long");
  }
  std::int64_t bytes() { return static_cast<std::int64_t>(number()); }
  std::int64_t signed_number() {
    const std::uint64_t bits = number();
    return static_cast<std::int64_t>((bits >> 1U) ^ (~(bits & 1U) + 1));
  }
  std::string_view view() { return take(number()); }
  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size() - at_) throw CutOff("a text is cut off");
    at_ += size;
    return bytes_.substr(at_ - size, size);
  }
  std::string_view since(std::size_t place) const { return bytes_.substr(place, at_ - place); }

 private:
  std::string_view bytes_;
  std::size_t at_ = 0;
};

}  // namespace tidemark::recorder
