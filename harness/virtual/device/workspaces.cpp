#include "harness/virtual/device/workspaces.h"

#include <mutex>
#include <set>

#include "harness/virtual/device/immortal.h"

namespace {

struct Known {
  std::mutex mutex;
  std::multiset<const void*> addresses;  // handles may share one
  std::set<const void*> of_lt;
};
Known& known() { return tidemark::device::immortal<Known>(); }

}  // namespace

void tidemark::device::change_workspace(const void* before, const void* now) {
  if (before == now) return;
  const std::lock_guard lock(known().mutex);
  if (before != nullptr)
    if (const auto one = known().addresses.find(before); one != known().addresses.end())
      known().addresses.erase(one);
  if (now != nullptr) known().addresses.insert(now);
}

void tidemark::device::use_workspace(const void* workspace) {
  const std::lock_guard lock(known().mutex);
  if (workspace != nullptr) known().of_lt.insert(workspace);
}

extern "C" size_t tidemark_device_workspaces(const void** addresses, size_t size, int of_lt) {
  const std::lock_guard lock(known().mutex);
  std::set<const void*> all(known().addresses.begin(), known().addresses.end());
  if (of_lt != 0) all.insert(known().of_lt.begin(), known().of_lt.end());
  size_t count = 0;
  for (const void* one : all) {
    if (count < size) addresses[count] = one;
    ++count;
  }
  return count;
}
