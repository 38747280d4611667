#include "harness/virtual/nccl/counts.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>
#include <mutex>
#include <string>

#include "harness/virtual/nccl/slices.h"

namespace tidemark::nccl {
namespace {

struct Calls {
  struct Count {
    std::uint64_t calls = 0, bytes = 0;
  };
  std::mutex lock;
  std::map<Function, Count> counts;
};
Calls& calls() {
  static auto* all = new Calls;  // libraries call NCCL while a process ends
  return *all;
}

}  // namespace

void count_call(const Operation& operation) {
  const std::size_t bytes = largest_buffer(operation);
  std::lock_guard lock(calls().lock);
  Calls::Count& count = calls().counts[operation.call.function];
  ++count.calls;
  count.bytes += bytes;
}

}  // namespace tidemark::nccl

/// The calls of this process so far, as JSON: {"ncclAllGather": [calls, bytes], ...}. Returns its
/// length; writes up to `size`.
extern "C" [[gnu::visibility("default")]] std::size_t tidemark_nccl_calls(char* text,
                                                                          std::size_t size) {
  using namespace tidemark::nccl;
  std::string all = "{";
  {
    std::lock_guard lock(calls().lock);
    for (const auto& [function, count] : calls().counts)
      all += fmt::format("{}\"{}\": [{}, {}]", all.size() > 1 ? ", " : "", name_of(function),
                         count.calls, count.bytes);
  }
  all += "}";
  if (size > 0) {
    const std::size_t written = std::min(size - 1, all.size());
    std::memcpy(text, all.data(), written);
    text[written] = 0;
  }
  return all.size();
}
