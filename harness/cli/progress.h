// Line on stderr that says which trial runs, on the rank that leads.
#pragma once

#include <chrono>
#include <cstddef>
#include <string>

#include "harness/cli/terminal.h"

namespace tidemark {

class Progress {
 public:
  explicit Progress(std::size_t trials) : count_(trials) {}
  void next() { ++trial_; }
  /// Shows `what` runs now, if it is news. A terminal has one line, which is written over.
  void operator()(const std::string& what);
  /// Clears the line.
  void done() const;

 private:
  std::size_t trial_ = 0, count_;
  std::string last_;
  const bool live_ = shows_progress();
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

}  // namespace tidemark
