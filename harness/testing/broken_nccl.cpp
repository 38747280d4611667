// NCCL as it is when a network breaks, for LD_PRELOAD before any libnccl: BROKEN_NCCL says after
// how many questions ncclCommGetAsyncError answers with an error (-1: never), and HANGING_ABORT
// that ncclCommAbort does not come back. What it is asked it says on stderr. And as it may be where
// ranks share a GPU: ncclCommInitRank refuses or hangs, as NCCL_INIT says, but not the staged
// one's.
#include <dlfcn.h>
#include <nccl.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <string_view>

namespace {

template <class Function>
Function* next(const char* name) {
  return reinterpret_cast<Function*>(dlsym(RTLD_NEXT, name));
}

}  // namespace

extern "C" __attribute__((visibility("default"))) ncclResult_t ncclCommGetAsyncError(
    ncclComm_t comm, ncclResult_t* error) {
  static std::atomic<int> questions = 0;
  const char* setting = std::getenv("BROKEN_NCCL");
  const int good = setting != nullptr ? std::atoi(setting) : -1;
  const ncclResult_t result =
      next<decltype(::ncclCommGetAsyncError)>("ncclCommGetAsyncError")(comm, error);
  if (good >= 0 && questions++ >= good) *error = ncclRemoteError;
  return result;
}

extern "C" __attribute__((visibility("default"))) ncclResult_t ncclCommAbort(ncclComm_t comm) {
  std::fprintf(stderr, "broken_nccl: ncclCommAbort in process %d\n", getpid());
  while (std::getenv("HANGING_ABORT") != nullptr) pause();
  return next<decltype(::ncclCommAbort)>("ncclCommAbort")(comm);
}

extern "C" __attribute__((visibility("default"))) ncclResult_t ncclCommInitRank(ncclComm_t* comm,
                                                                                int size,
                                                                                ncclUniqueId id,
                                                                                int rank) {
  const char *init = std::getenv("NCCL_INIT"), *on = std::getenv("TIDEMARK_ON");
  const bool staged = on != nullptr && std::string_view(on).ends_with("+staged");
  if (init == nullptr || staged)
    return next<decltype(::ncclCommInitRank)>("ncclCommInitRank")(comm, size, id, rank);
  while (std::string_view(init) == "hangs") pause();
  return ncclInvalidUsage;
}
