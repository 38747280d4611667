// Strings and lists of JSON, without a library of JSON: the operator layer is compiled for every
// torch, and the templates of such a library are a sixth of that.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark::device {

/// The bytes of the character of UTF-8 with which `text` begins (Unicode 15, table 3-7); 0: it
/// begins with none.
inline std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) -> std::uint8_t {
    return static_cast<std::uint8_t>(text[i]);
  };
  const std::uint8_t first = byte(0);
  if (first < 0x80) return 1;
  const std::size_t length = first < 0xc2   ? 0
                             : first < 0xe0 ? 2
                             : first < 0xf0 ? 3
                             : first < 0xf5 ? 4
                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  const std::uint8_t lowest = first == 0xe0   ? 0xa0
                              : first == 0xf0 ? 0x90
                                              : 0x80;  // no longer form than needed
  const std::uint8_t highest = first == 0xed   ? 0x9f
                               : first == 0xf4 ? 0x8f
                                               : 0xbf;  // no surrogate, at most U+10FFFF
  if (byte(1) < lowest || byte(1) > highest) return 0;
  for (std::size_t i = 2; i < length; ++i)
    if ((byte(i) & 0xc0) != 0x80) return 0;
  return length;
}

/// `text` in quotes; a byte that is of no character of UTF-8 becomes U+FFFD.
inline std::string json_string(std::string_view text) {
  std::string out = "\"";
  while (!text.empty()) {
    const std::size_t length = utf8_length(text);
    const char c = text.front();
    if (length == 0) {
      out += "\xef\xbf\xbd";
    } else if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (length == 1 && static_cast<std::uint8_t>(c) < 0x20) {
      char code[7];
      std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
      out += code;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(length == 0 ? 1 : length);
  }
  return out + '"';
}

/// The list of `values`, each of which is JSON.
inline std::string json_list(const std::vector<std::string>& values) {
  std::string out;
  for (const std::string& value : values) out += (out.empty() ? "[" : ",") + value;
  return out.empty() ? "[]" : out + ']';
}

}  // namespace tidemark::device
