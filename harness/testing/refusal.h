// The error of one line by which an input is refused, and damage to try on files.
#pragma once

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

namespace tidemark {

inline const std::string kNothingRefused = "(nothing refused)";

/// Runs it: the text of its Error, which has one line.
template <class Error = std::runtime_error>
std::string refusal(auto act) {
  try {
    act();
  } catch (const Error& error) {
    EXPECT_EQ(std::string(error.what()).find('\n'), std::string::npos) << error.what();
    return error.what();
  }
  return kNothingRefused;
}

/// Calls it with every beginning of the text, and with each of its bytes changed to every letter.
void for_each_damage(const std::string& text, const std::string& letters, auto read) {
  for (std::size_t at = 0; at < text.size(); ++at) {
    read(text.substr(0, at));
    for (const char letter : letters) {
      std::string damaged = text;
      damaged[at] = letter;
      read(damaged);
    }
  }
}

}  // namespace tidemark
