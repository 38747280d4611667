#include "harness/virtual/device/workspaces.h"

#include <atomic>

namespace {

std::atomic<void (*)(const void*)> of_workspaces{nullptr};

}  // namespace

void tidemark::device::give_workspace(const void* workspace) {
  if (workspace == nullptr) return;
  if (auto* const listener = of_workspaces.load(std::memory_order_relaxed)) listener(workspace);
}

void tidemark_device_on_workspace(void (*listener)(const void*)) { of_workspaces = listener; }
