// std::from_chars of a double, which Emscripten's C++ library does not have (libc++ has it from 20
// on). Included before all else (wasm.cmake).
#pragma once

#include <charconv>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <string>

namespace std {

inline from_chars_result from_chars(const char* first, const char* last, double& value,
                                    chars_format format = chars_format::general) {
  const string text(first, last);
  const auto refused = [&] { return from_chars_result{first, errc::invalid_argument}; };
  // strtod takes more: blanks and a '+' in front, and hexadecimal digits.
  const size_t sign = text.starts_with('-') ? 1 : 0;
  if (text.size() == sign || text.find_first_of(" \t\n\v\f\r+") == sign ||
      text.find_first_of("xX", sign) == sign + 1)
    return refused();
  string read = text;
  if (format == chars_format::fixed) read = text.substr(0, text.find_first_of("eE", sign));
  const bool hex = format == chars_format::hex;
  if (hex) read = text.substr(0, sign) + "0x" + text.substr(sign);
  char* end = nullptr;
  const double out = strtod(read.c_str(), &end);
  const ptrdiff_t taken = end - read.c_str() - (hex ? 2 : 0);
  if (taken <= static_cast<ptrdiff_t>(sign)) return refused();
  const char* rest = first + taken;
  if (out == HUGE_VAL || out == -HUGE_VAL)
    if (text.find_first_of("iI", sign) != sign) return {rest, errc::result_out_of_range};
  value = out;
  return {rest, errc()};
}

}  // namespace std
