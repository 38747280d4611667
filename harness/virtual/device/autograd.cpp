#include "harness/virtual/device/autograd.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "harness/virtual/device/symbol.h"

namespace {

std::atomic<void (*)(uint64_t, int)> of_nodes{nullptr};

// Addresses of the library that makes the nodes of torch.autograd.Function. Its other nodes, such
// as DelayedError, have no forward in Python.
struct Library {
  uintptr_t begin = 0, end = 0;
  bool has(const void* address) const {
    const auto at = reinterpret_cast<uintptr_t>(address);
    return at >= begin && at < end;
  }
};
Library of_python;

int find_python(dl_phdr_info* library, size_t, void*) {
  if (!std::string_view(library->dlpi_name).ends_with("/libtorch_python.so")) return 0;
  for (int i = 0; i < library->dlpi_phnum; ++i) {
    const auto& part = library->dlpi_phdr[i];
    if (part.p_type != PT_LOAD || (part.p_flags & PF_X) == 0) continue;
    of_python.begin = library->dlpi_addr + part.p_vaddr;
    of_python.end = of_python.begin + part.p_memsz;
  }
  return 1;
}

using Numbering = uint64_t();

// PyTorch's own, which may lie in a library that this one cannot see.
Numbering* pytorchs() {
  constexpr const char* kName = "_ZN2at15sequence_number17get_and_incrementEv";
  void* address = dlsym(RTLD_NEXT, kName);
  if (address == nullptr)
    if (void* library = dlopen("libtorch_cpu.so", RTLD_LAZY | RTLD_NOLOAD))
      address = dlsym(library, kName);
  if (address == nullptr) {
    std::fputs("error: autograd's numbering is not in this PyTorch's libtorch_cpu.so\n", stderr);
    std::abort();
  }
  return tidemark::device::Symbol{address};
}

}  // namespace

void tidemark_device_on_node(void (*listener)(uint64_t, int)) {
  dl_iterate_phdr(find_python, nullptr);
  of_nodes = listener;
}

// In place of libtorch_cpu's, which all of PyTorch's libraries call by its name.
namespace at::sequence_number {

[[gnu::visibility("default")]] uint64_t get_and_increment() {
  static Numbering* const number = pytorchs();
  const uint64_t made = number();
  if (auto* const listener = of_nodes.load(std::memory_order_acquire))
    listener(made, of_python.has(__builtin_return_address(0)) ? 1 : 0);
  return made;
}

}  // namespace at::sequence_number
