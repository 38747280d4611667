// Line on stderr that says which trial runs, and how long the others take, on the rank that leads.
#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/ranks/terminal.h"
#include "harness/record/record.h"

namespace tidemark {

class Progress {
 public:
  /// `expected`: how long each trial took last; none where that is unknown.
  explicit Progress(std::vector<std::optional<Ns>> expected) : expected_(std::move(expected)) {}
  void next();
  /// Shows `what` runs now, if it is news. A terminal has one line, which is written over.
  void operator()(const std::string& what);
  /// Clears the line.
  void done() const;

 private:
  /// ", about 40 s left"; "" where a trial that is left has not run before.
  std::string left() const;

  std::size_t trial_ = 0;
  std::vector<std::optional<Ns>> expected_;
  std::string last_;
  const bool live_ = shows_progress();
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now(), begun_ = start_;
};

}  // namespace tidemark
