// Allocation of a program that reads files of others: what it takes is counted (budget.h).
#include <malloc.h>

#include <cstdlib>
#include <new>

#include "harness/record/budget.h"

namespace {

/// Null where the host has no memory left.
void* counted(std::size_t bytes) {
  tidemark::spend(bytes);  // before: a request may be larger than the machine
  void* made = std::malloc(bytes == 0 ? 1 : bytes);
  if (made == nullptr)
    tidemark::give_back(bytes);
  else
    tidemark::keep(bytes, malloc_usable_size(made));
  return made;
}

}  // namespace

void* operator new(std::size_t bytes) {
  void* made = counted(bytes);
  if (made == nullptr) {
    tidemark::note_memory_end();
    throw std::bad_alloc();
  }
  return made;
}

void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept try {
  return counted(bytes);  // what asks so can do without
} catch (...) {
  return nullptr;
}

void operator delete(void* made) noexcept {
  if (made != nullptr) tidemark::give_back(malloc_usable_size(made));
  std::free(made);
}
void operator delete(void* made, std::size_t) noexcept { operator delete(made); }
void* operator new[](std::size_t bytes) { return operator new(bytes); }
void* operator new[](std::size_t bytes, const std::nothrow_t& none) noexcept {
  return operator new(bytes, none);
}
void operator delete[](void* made) noexcept { operator delete(made); }
void operator delete[](void* made, std::size_t) noexcept { operator delete(made); }
