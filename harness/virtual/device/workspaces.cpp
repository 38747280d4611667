#include "harness/virtual/device/workspaces.h"

#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "harness/virtual/device/immortal.h"

namespace {

struct Known {
  std::mutex mutex;
  std::map<std::pair<const void*, const void*>, const void*> addresses;  // by handle and stream
  std::set<const void*> of_lt;
};
Known& known() { return tidemark::device::immortal<Known>(); }

}  // namespace

void tidemark::device::set_workspace(const void* handle, const void* stream,
                                     const void* workspace) {
  const std::lock_guard lock(known().mutex);
  if (workspace != nullptr)
    known().addresses[{handle, stream}] = workspace;
  else
    known().addresses.erase({handle, stream});
}

void tidemark::device::forget_workspaces(const void* handle) {
  const std::lock_guard lock(known().mutex);
  std::erase_if(known().addresses, [handle](const auto& one) { return one.first.first == handle; });
}

void tidemark::device::use_workspace(const void* workspace) {
  const std::lock_guard lock(known().mutex);
  if (workspace != nullptr) known().of_lt.insert(workspace);
}

extern "C" size_t tidemark_device_workspaces(const void** addresses, size_t size, int of_lt) {
  const std::lock_guard lock(known().mutex);
  std::set<const void*> all;
  for (const auto& [key, workspace] : known().addresses) all.insert(workspace);
  if (of_lt != 0) all.insert(known().of_lt.begin(), known().of_lt.end());
  size_t count = 0;
  for (const void* one : all) {
    if (count < size) addresses[count] = one;
    ++count;
  }
  return count;
}
