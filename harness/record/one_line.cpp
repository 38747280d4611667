#include "harness/record/one_line.h"

#include <algorithm>
#include <string_view>

namespace tidemark {
namespace {

/// Length of the UTF-8 sequence that starts at `at`, 0 where there is none.
std::size_t sequence(std::string_view text, std::size_t at) {
  const auto lead = static_cast<unsigned char>(text[at]);
  const std::size_t length = lead < 0x80   ? 1
                             : lead < 0xc2 ? 0
                             : lead < 0xe0 ? 2
                             : lead < 0xf0 ? 3
                             : lead < 0xf5 ? 4
                                           : 0;
  if (at + length > text.size()) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if ((static_cast<unsigned char>(text[at + i]) & 0xc0) != 0x80) return 0;
  }
  if (length < 3) return length;
  const auto second = static_cast<unsigned char>(text[at + 1]);
  const bool overlong = (lead == 0xe0 && second < 0xa0) || (lead == 0xf0 && second < 0x90);
  const bool outside = (lead == 0xed && second >= 0xa0) || (lead == 0xf4 && second >= 0x90);
  return overlong || outside ? 0 : length;
}

bool is_separator(std::string_view character) {  // U+2028 and U+2029, which end a line
  return character == "\xe2\x80\xa8" || character == "\xe2\x80\xa9";
}

/// "31" of a colour's mark "\x01" "31" "\x02" that the text begins with; empty where it is none.
std::string_view colour(std::string_view text) {
  const std::size_t end = text.find_first_not_of("0123456789", 1);
  return end != std::string_view::npos && end > 1 && end < 5 && text[end] == '\x02'
             ? text.substr(1, end - 1)
             : "";
}

std::string safe(std::string_view text, bool lines) {
  std::string out;
  out.reserve(text.size());
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t length = sequence(text, at);
    const auto byte = static_cast<unsigned char>(text[at]);
    if (length == 0) {
      out += '?';
    } else if (lines && byte == '\n') {
      out += '\n';
    } else if (const auto code = byte == 1 && lines ? colour(text.substr(at, 6)) : "";
               !code.empty()) {
      out.append("\033[").append(code) += 'm';
      at += code.size() + 1;
    } else if ((length == 1 && (byte < 0x20 || byte == 0x7f)) ||
               (length == 2 && byte == 0xc2 && static_cast<unsigned char>(text[at + 1]) < 0xa0) ||
               is_separator(text.substr(at, length))) {
      out += ' ';  // C1 controls too, which terminals obey
    } else {
      out.append(text.substr(at, length));
    }
    at += length == 0 ? 1 : length;
  }
  return out;
}

}  // namespace

std::string one_line(std::string_view text) { return safe(text, false); }

std::string printable(std::string_view text) { return safe(text, true); }

std::string shell_word(const std::string& word) {
  const auto plain = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
           std::string_view("_-./=:,+@%").find(c) != std::string_view::npos;
  };
  if (!word.empty() && std::ranges::all_of(word, plain)) return word;
  std::string out = "'";
  for (char c : word) out += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return out + "'";
}

}  // namespace tidemark
