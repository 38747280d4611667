// Reader of a pickle as data: it knows only the opcodes that a memory snapshot needs, and imports,
// calls and builds nothing.
#pragma once

#include <string>
#include <string_view>

#include "harness/memory/tree.h"

namespace tidemark {

/// Protocols 2 to 5. The tree refers to `bytes`. Throws SnapshotError, naming opcode and byte.
Tree unpickle(std::string_view bytes);
/// Parses JSON into the same tree.
Tree tree_of_json(std::string_view bytes);

}  // namespace tidemark
