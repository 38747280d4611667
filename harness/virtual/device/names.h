// Text for people and for C callers.
#pragma once

#include <cxxabi.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <string>

namespace tidemark::device {

inline std::string readable(const std::string& mangled) {
  int status = 0;
  const std::size_t part = mangled.find("/_Z");  // an operator's name before a kernel's
  const std::size_t from = part == std::string::npos ? 0 : part + 1;
  char* text = abi::__cxa_demangle(mangled.c_str() + from, nullptr, nullptr, &status);
  if (!text) return mangled;
  std::string result = mangled.substr(0, from) + text;
  std::free(text);
  return result;
}

/// Copies as much as fits, with a final 0; returns the whole length.
inline std::size_t give_text(const std::string& from, char* text, std::size_t size) {
  if (text && size) {
    const std::size_t fits = std::min(from.size(), size - 1);
    std::memcpy(text, from.data(), fits);
    text[fits] = 0;
  }
  return from.size();
}

/// Text that a C function writes as give_text() does. Other threads may let it grow between two
/// calls.
template <typename Read, typename... What>
std::string text_of(Read* read, What... what) {
  std::string text;
  std::size_t length = read(what..., nullptr, 0);
  while (length >= text.size()) {
    text.assign(length + 1, '\0');
    length = read(what..., text.data(), text.size());
  }
  text.resize(length);
  return text;
}

}  // namespace tidemark::device
