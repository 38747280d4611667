// Errors of a command's user, each with its exit code, and the error of a rank that has lost a
// partner.
#pragma once

#include <stdexcept>
#include <string>

#include "harness/record/one_line.h"

namespace tidemark {

/// A mistake of the user's: one line that says what is wrong and what is possible. Exit code 2.
struct UsageError : std::runtime_error {
  explicit UsageError(const std::string& what) : std::runtime_error(one_line(what)) {}
};
/// Nothing matches what was asked for. Exit code 4.
struct NothingSelected : std::runtime_error {
  explicit NothingSelected(const std::string& what) : std::runtime_error(one_line(what)) {}
};

/// A request that this machine cannot meet, with its exit code (3, or 77 where a GPU is missing).
struct Unavailable : std::runtime_error {
  Unavailable(const std::string& why, int exit_code)
      : std::runtime_error(one_line(why)), code(exit_code) {}
  int code;
};

/// Another rank has failed or has left, so that this one cannot go on.
struct PartnerFailed : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tidemark
