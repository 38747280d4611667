#include "harness/virtual/nccl/zeromq.h"

#include <dlfcn.h>

#include <cstdlib>

#include "harness/virtual/nccl/failure.h"

namespace tidemark::nccl {
namespace {

void* load() {
  const char* named = std::getenv("TIDEMARK_LIBZMQ");
  void* library = dlopen(named == nullptr ? "libzmq.so.5" : named, RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    fail(ncclSystemError,
         "ranks meet over ZeroMQ, and libzmq.so.5 cannot be loaded ({}): "
         "install the package libzmq5, or pyzmq",
         dlerror());
  }
  return library;
}

}  // namespace

device::Symbol find_zeromq(const char* name) {
  static void* const library = load();
  void* const function = dlsym(library, name);
  if (function == nullptr) fail(ncclSystemError, "libzmq.so.5 has no {}", name);
  return {function};
}

const ZeroMq& zeromq() {
  static const ZeroMq all;
  return all;
}

}  // namespace tidemark::nccl
