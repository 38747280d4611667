// Reader of a pickle as data: it knows only the opcodes that a memory snapshot needs, and imports,
// calls and builds nothing.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "harness/memory/tree.h"

namespace tidemark {

inline constexpr std::string_view kTraces = "device_traces", kBlocks = "blocks";

/// Takes the events and blocks of a file while it is read: the tree of a long trace would be larger
/// than all else.
class EventTaker {
 public:
  virtual ~EventTaker() = default;
  /// These items come to a list that is, or is to be, at this place of the list kTraces. False: the
  /// list keeps them.
  virtual bool take(Tree::Id list, std::size_t place, std::span<const Tree::Id> items) = 0;
  /// The same of blocks: these items come to a list that is to be the member kBlocks.
  virtual bool take_blocks(Tree::Id list, std::span<const Tree::Id> items) = 0;
};

/// Protocols 2 to 5. The tree refers to `bytes`. Throws SnapshotError, naming opcode and byte.
void unpickle(std::string_view bytes, Tree& tree, EventTaker& taker);
/// Parses JSON into the same tree.
void tree_of_json(std::string_view bytes, Tree& tree, EventTaker& taker);

}  // namespace tidemark
