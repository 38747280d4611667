#include "reports/snapshot/snapshot.h"

#include <algorithm>
#include <iterator>

namespace tidemark {

const char* name_of(BlockState state) {
  return state == BlockState::allocated      ? "active_allocated"
         : state == BlockState::pending_free ? "active_pending_free"
                                             : "inactive";
}

constexpr const char* kActionNames[] = {
    "alloc",        "free_requested", "free_completed", "segment_alloc",
    "segment_free", "segment_map",    "segment_unmap",  "oom",
    "snapshot"};

const char* name_of(Action action) { return kActionNames[static_cast<std::size_t>(action)]; }

bool of_block(Action action) {
  return action == Action::alloc || action == Action::free_requested ||
         action == Action::free_completed;
}

std::optional<Action> action_named(std::string_view name) {
  const auto* found = std::ranges::find(kActionNames, name);
  if (found == std::end(kActionNames)) return std::nullopt;
  return static_cast<Action>(found - kActionNames);
}

}  // namespace tidemark
