#include "harness/virtual/device/memory_use.h"

#include <atomic>

namespace {

std::atomic<void (*)(const void*, const char*)> of_uses{nullptr};

void tell(const void* memory, const char* kind) {
  if (auto* const listener = of_uses.load(std::memory_order_relaxed)) listener(memory, kind);
}

}  // namespace

void tidemark::device::give_workspace(const void* workspace) {
  if (workspace != nullptr) tell(workspace, kWorkspace);
}

void tidemark::device::note_upload(const void* memory) { tell(memory, kUploaded); }

void tidemark::device::note_read(const void* memory) { tell(memory, kRead); }

bool tidemark::device::uses_are_told() {
  return of_uses.load(std::memory_order_relaxed) != nullptr;
}

void tidemark_device_on_use(void (*listener)(const void*, const char*)) { of_uses = listener; }
