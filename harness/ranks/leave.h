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

/// The exit code of a command that printed: 3, with a line on stderr, where it would be 0 and not
/// all of standard output could be written.
inline int with_output(int code) {
  std::cout.flush();
  const bool failed = std::ferror(stdout) != 0 || !std::cout;
  if (failed) std::fputc('\n', stdout);  // the reason of the write that failed is gone: ask again
  const bool flushed = std::fflush(stdout) == 0;
  if ((flushed && !failed) || code != 0) return code;
  std::fprintf(stderr, "error: standard output cannot be written%s%s\n", flushed ? "" : ": ",
               flushed ? "" : std::strerror(errno));
  std::clearerr(stdout);  // it is said once
  return 3;
}

/// Ends the process with `code` and everything printed (3 where that cannot be), but without the
/// destructors of static objects: PyTorch's take a quarter of the time of a rank that does
/// nothing, to free memory that the kernel frees anyway. Returns only under a sanitizer, which
/// reports at exit. main() calls it last, after MPI.
inline int leave(int code) {
  code = with_output(code);
  if constexpr (!kSanitized) {
    std::fflush(nullptr);
    _exit(code);
  }
  return code;
}

}  // namespace tidemark
