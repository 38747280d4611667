// Error of a snapshot, in one line.
#pragma once

#include <stdexcept>

namespace tidemark {

struct SnapshotError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

}  // namespace tidemark
