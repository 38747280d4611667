// Changes of a program, tried on what it asked of the allocator: blocks of a line that are smaller,
// or that are given back before the backward and taken again in it.
#pragma once

#include <cstddef>
#include <string>

#include "harness/memory/workload.h"

namespace tidemark {

struct Edit {
  std::string text;  // as it was written
  std::string file;  // "model.py", or the end of a path
  std::int64_t line = 0;
  double factor = 1;  // of the bytes
  /// What is alive when a backward begins is given back before it, and taken again in it: as the
  /// recomputation of a checkpoint does.
  bool until_backward = false;
};

/// "model.py:88 x0.5" or "model.py:88 until backward". Throws std::runtime_error in one line.
Edit parse_edit(const std::string& text);

/// How much an edit changes.
struct Edited {
  std::size_t blocks = 0;
  Bytes bytes = 0;             // of these blocks, as recorded
  std::size_t recomputed = 0;  // parts of them that are taken again
};

/// Changes the blocks whose stacks come through that line. Throws SnapshotError where none does,
/// and where no backward is seen.
Edited apply(const Edit& edit, const Snapshot& snapshot, std::size_t device, Workload& workload);

}  // namespace tidemark
