// Private pools and refused requests of a record, as they are read.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

#include "harness/memory/block_layout.h"
#include "harness/memory/format/entry.h"
#include "harness/memory/snapshot.h"

namespace tidemark {

/// The layout that it is given is that of the entry's device at the entry.
class RequestReader {
 public:
  /// An event of a device, which is to have this place in its trace.
  void event(std::uint64_t device, const AllocatorEvent& event, std::size_t place);
  void pool(const recorder::Entry& entry, BlockLayout& layout, Snapshot& out);
  void refused(const recorder::Entry& entry, const BlockLayout& layout, Snapshot& out);

 private:
  std::map<std::pair<std::uint64_t, std::int64_t>, std::size_t> taken_;  // by device, address
  std::map<std::uint64_t, std::size_t> full_;  // the last event, oom, by device
  std::size_t looked_at_ = 0;                  // blocks
};

}  // namespace tidemark
