// Colours of a terminal's text.
#pragma once

#include <string>

namespace tidemark {

struct Paint {
  bool on;
  std::string operator()(const char* code, const std::string& text) const {
    return on ? std::string("\033[") + code + "m" + text + "\033[0m" : text;
  }
  std::string bold(const std::string& text) const { return (*this)("1", text); }
  std::string dim(const std::string& text) const { return (*this)("2", text); }
  std::string red(const std::string& text) const { return (*this)("31", text); }
  std::string green(const std::string& text) const { return (*this)("32", text); }
};

}  // namespace tidemark
