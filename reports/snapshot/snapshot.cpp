#include "reports/snapshot/snapshot.h"

#include <cstddef>

namespace tidemark {

const char* name_of(BlockState state) {
  return state == BlockState::allocated      ? "active_allocated"
         : state == BlockState::pending_free ? "active_pending_free"
                                             : "inactive";
}

const char* name_of(Action action) {
  constexpr const char* kNames[] = {"alloc",         "free_requested", "free_completed",
                                    "segment_alloc", "segment_free",   "segment_map",
                                    "segment_unmap", "snapshot",       "oom"};
  return kNames[static_cast<std::size_t>(action)];
}

}  // namespace tidemark
