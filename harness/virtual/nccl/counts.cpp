#include "harness/virtual/nccl/counts.h"

#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <string>
#include <tuple>

#include "harness/virtual/device/immortal.h"
#include "harness/virtual/device/names.h"
#include "harness/virtual/nccl/communicator.h"
#include "harness/virtual/nccl/slices.h"

namespace tidemark::nccl {
namespace {

struct Calls {
  struct Count {
    std::uint64_t calls = 0, bytes = 0;
  };
  std::mutex lock;
  std::map<std::tuple<std::string, int, Function>, Count> counts;  // communicator, its ranks
};
Calls& calls() { return device::immortal<Calls>(); }

}  // namespace

void count_call(const Operation& operation) {
  const std::size_t bytes = largest_buffer(operation);
  std::lock_guard lock(calls().lock);
  Calls::Count& count =
      calls().counts[{operation.comm->name, operation.comm->size, operation.call.function}];
  ++count.calls;
  count.bytes += bytes;
}

}  // namespace tidemark::nccl

/// The calls of this process so far, as JSON: [{"communicator": its name, "ranks": 4, "function":
/// "ncclAllGather", "calls": 12, "bytes": 8192}, ...]. Returns its length; writes up to `size`.
extern "C" [[gnu::visibility("default")]] std::size_t tidemark_nccl_calls(char* text,
                                                                          std::size_t size) {
  using namespace tidemark::nccl;
  nlohmann::json all = nlohmann::json::array();
  {
    std::lock_guard lock(calls().lock);
    for (const auto& [key, count] : calls().counts) {
      const auto& [name, ranks, function] = key;
      all.push_back({{"communicator", name},
                     {"ranks", ranks},
                     {"function", name_of(function)},
                     {"calls", count.calls},
                     {"bytes", count.bytes}});
    }
  }
  return tidemark::device::give_text(
      all.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), text, size);
}
