// Error of a snapshot, in one line.
#pragma once

#include <stdexcept>
#include <string>

namespace tidemark {

struct SnapshotError : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// Limits the text that the stacks of a hostile file would fill. Throws SnapshotError.
inline void limit_text(std::size_t bytes) {
  if (bytes > std::size_t{4} << 30)
    throw SnapshotError("becomes more than 4 GiB of text: its stacks are too long");
}

}  // namespace tidemark
