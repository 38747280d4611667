#include "harness/virtual/device/autograd.h"

#include <dlfcn.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>

#include "harness/virtual/device/symbol.h"

namespace {

std::atomic<void (*)(uint64_t)> of_nodes{nullptr};

using Numbering = uint64_t();

// PyTorch's own, which may lie in a library that this one cannot see.
Numbering* pytorchs() {
  constexpr const char* kName = "_ZN2at15sequence_number17get_and_incrementEv";
  void* found = dlsym(RTLD_NEXT, kName);
  if (found == nullptr)
    if (void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD))
      found = dlsym(library, kName);
  if (found == nullptr) {
    std::fputs("error: autograd's numbering is not in this PyTorch's libtorch_cpu.so\n", stderr);
    std::abort();
  }
  return tidemark::device::Symbol{found};
}

}  // namespace

void tidemark_device_on_node(void (*listener)(uint64_t)) { of_nodes = listener; }

// In place of libtorch_cpu's, which all of PyTorch's libraries call by its name.
namespace at::sequence_number {

[[gnu::visibility("default")]] uint64_t get_and_increment() {
  static Numbering* const number = pytorchs();
  const uint64_t made = number();
  if (auto* const listener = of_nodes.load(std::memory_order_relaxed)) listener(made);
  return made;
}

}  // namespace at::sequence_number
