#include "harness/virtual/device/workspaces.h"

#include <mutex>
#include <set>

namespace {

struct Known {
  std::mutex mutex;
  std::multiset<const void*> addresses;  // handles may share one
};
Known& known() {
  static auto* one = new Known;  // cuBLAS may be called while the process ends
  return *one;
}

}  // namespace

void tidemark::device::change_workspace(const void* before, const void* now) {
  if (before == now) return;
  const std::lock_guard lock(known().mutex);
  if (before != nullptr)
    if (const auto one = known().addresses.find(before); one != known().addresses.end())
      known().addresses.erase(one);
  if (now != nullptr) known().addresses.insert(now);
}

extern "C" size_t tidemark_device_workspaces(const void** addresses, size_t size) {
  const std::lock_guard lock(known().mutex);
  const auto& all = known().addresses;
  size_t count = 0;
  for (auto one = all.begin(); one != all.end(); one = all.upper_bound(*one), ++count)
    if (count < size) addresses[count] = *one;
  return count;
}
