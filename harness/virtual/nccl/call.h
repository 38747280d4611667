// A call of a rank: the part of a call on which the ranks have to agree, and its text for messages.
#pragma once

#include <nccl.h>

#include <cstddef>
#include <cstdint>
#include <string>

namespace tidemark::nccl {

enum class Function : std::uint8_t {
  all_reduce,
  all_gather,
  reduce_scatter,
  broadcast,
  reduce,
  all_to_all,
  gather,
  scatter,
  send,
  recv,
  split,
  shrink,
};

/// Operation that combines elements. The values of the built-in ones are NCCL's.
enum class Reduction : std::uint8_t { sum, prod, max, min, avg, premul_sum, none };

struct Call {
  Function function = Function::all_reduce;
  ncclDataType_t type = ncclInt8;
  Reduction reduction = Reduction::none;
  bool moves_data = false;
  std::int32_t root = -1;   // of rooted collectives; the peer of send and recv
  std::uint64_t count = 0;  // elements, as the caller passed it

  bool operator==(const Call&) const = default;
};

bool is_collective(Function function);
bool has_root(Function function);

std::size_t size_of(ncclDataType_t type);  // bytes of an element
const char* name_of(ncclDataType_t type);
const char* name_of(Function function);  // "ncclAllReduce"
/// As CUDA profilers show it: "ncclDevKernel_AllReduce_Sum_f32_RING".
std::string kernel_name(const Call& call);
/// "ncclAllReduce(count 4, float32, sum)"
std::string text_of(const Call& call);

}  // namespace tidemark::nccl
