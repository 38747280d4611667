// Colours of a terminal's text, between marks that the door to the terminal knows (printable of
// harness/record/one_line.h): no escape is in a text before.
#pragma once

#include <string>

namespace tidemark {

struct Paint {
  bool on;
  std::string operator()(const char* code, const std::string& text) const {
    return on ? std::string("\x01") + code + "\x02" + text + "\x01" + "0" + "\x02" : text;
  }
  std::string bold(const std::string& text) const { return (*this)("1", text); }
  std::string dim(const std::string& text) const { return (*this)("2", text); }
  std::string red(const std::string& text) const { return (*this)("31", text); }
  std::string green(const std::string& text) const { return (*this)("32", text); }
};

}  // namespace tidemark
