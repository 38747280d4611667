// Preloaded into the command (boundary_test.py). Reading the file that TIDEMARK_TEST_FILE names
// throws an exception, or memory ends a number of allocations after it.
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>
#include <string_view>

extern "C" void* __libc_malloc(std::size_t);

namespace {

// TIDEMARK_TEST_ALLOCATION: the allocation that fails, and with a "+" behind it all large ones that
// follow; 0: none, they are counted.
bool counting = false, failing = false;
std::size_t counted = 0, failing_at = 0;
constexpr std::size_t kLarge = 4096;

std::string_view setting(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

/// Throws what TIDEMARK_TEST_THROWS says, or begins to count.
void begin(int file) {
  if (counting) return;
  char link[64], path[4096];
  std::strcpy(link, "/proc/self/fd/");
  const std::string number = std::to_string(file);
  std::strcat(link, number.c_str());
  const ssize_t length = readlink(link, path, sizeof path);
  const std::string_view name = setting("TIDEMARK_TEST_FILE");
  if (name.empty() || length <= 0) return;
  const std::string_view of(path, static_cast<std::size_t>(length));
  if (of.substr(of.rfind('/') + 1) != name) return;
  const std::string_view what = setting("TIDEMARK_TEST_THROWS");
  if (what == "logic_error") throw std::logic_error("basic_string: a logic\nerror");
  if (what == "out_of_range") throw std::out_of_range("vector::_M_range_check: __n (which is 7)");
  if (what == "length_error") throw std::length_error("vector::_M_default_append");
  if (what == "exception") throw std::exception();
  if (what == "number") throw 7;
  if (what == "bad_alloc") throw std::bad_alloc();
  const std::string_view allocation = setting("TIDEMARK_TEST_ALLOCATION");
  failing_at = std::strtoul(allocation.data(), nullptr, 10);
  counting = !allocation.empty();
}

__attribute__((destructor)) void tell_count() {
  const char* file = std::getenv("TIDEMARK_TEST_COUNT");
  if (file == nullptr || !counting) return;
  if (std::FILE* out = std::fopen(file, "w"); out != nullptr) {
    std::fprintf(out, "%zu", counted);
    std::fclose(out);
  }
}

}  // namespace

#pragma GCC visibility push(default)
extern "C" {

ssize_t read(int file, void* to, std::size_t bytes) {
  begin(file);
  return syscall(SYS_read, file, to, bytes);
}

ssize_t pread64(int file, void* to, std::size_t bytes, off64_t at) {  // of SQLite
  begin(file);
  return syscall(SYS_pread64, file, to, bytes, at);
}

void* malloc(std::size_t bytes) noexcept {
  if (counting && ((++counted == failing_at) || (failing && bytes > kLarge))) {
    failing = setting("TIDEMARK_TEST_ALLOCATION").ends_with('+');
    errno = ENOMEM;
    return nullptr;
  }
  return __libc_malloc(bytes);
}
}
#pragma GCC visibility pop
