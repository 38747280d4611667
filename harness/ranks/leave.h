// End of a process.
#pragma once
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <iostream>

namespace tidemark {

/// True if compiled with a sanitizer. (AddressSanitizer keeps freed memory for a while, to detect
/// its use.)
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
inline constexpr bool kSanitized = true;
#elif defined(__has_feature)
inline constexpr bool kSanitized =
    __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
inline constexpr bool kSanitized = false;
#endif

/// Ends the process with `code` and everything printed (3 where that cannot be), but without the
/// destructors of static objects: PyTorch's take a quarter of the time of a rank that does
/// nothing, to free memory that the kernel frees anyway. Returns only under a sanitizer, which
/// reports at exit. main() calls it last, after MPI.
inline int leave(int code) {
  std::cout.flush();
  if ((std::fflush(stdout) != 0 || std::ferror(stdout) || !std::cout) && code == 0) {
    std::fprintf(stderr, "error: standard output cannot be written: %s\n", std::strerror(errno));
    code = 3;
  }
  if constexpr (!kSanitized) {
    std::fflush(nullptr);
    _exit(code);
  }
  return code;
}

}  // namespace tidemark
