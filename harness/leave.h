// How a process of ours ends.
#pragma once
#include <unistd.h>

#include <cstdio>
#include <iostream>

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define TIDEMARK_SANITIZED
#endif
#endif

namespace tidemark {

/// Ends the process with `code` and everything printed, but without the destructors of static
/// objects: PyTorch's take a tenth of a second of every rank's start and end (a quarter), to give
/// back what the kernel takes anyway. Returns only under a sanitizer, which has its word at exit.
/// To be called last in main(), after MPI.
inline int leave(int code) {
#ifndef TIDEMARK_SANITIZED
  std::cout.flush();
  std::fflush(nullptr);
  _exit(code);
#endif
  return code;
}

}  // namespace tidemark
