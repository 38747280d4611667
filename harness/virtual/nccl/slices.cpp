#include "harness/virtual/nccl/slices.h"

#include <algorithm>
#include <cstring>

namespace tidemark::nccl {

Parts parts_of(const Operation& op) {
  const auto all = static_cast<std::size_t>(op.comm->size);
  const bool root = op.comm->rank == op.call.root;
  switch (op.call.function) {
    case Function::all_reduce:
      return {1, 1};
    case Function::all_gather:
      return {1, all};
    case Function::reduce_scatter:
      return {all, 1};
    case Function::all_to_all:
      return {all, all};
    case Function::broadcast:
      return {root ? std::size_t{1} : 0, 1};
    case Function::reduce:
      return {1, root ? std::size_t{1} : 0};
    case Function::gather:
      return {1, root ? all : 0};
    case Function::scatter:
      return {root ? all : 0, 1};
    case Function::send:
      return {1, 0};
    case Function::recv:
      return {0, 1};
    default:
      return {0, 0};
  }
}

std::size_t largest_buffer(const Operation& op) {
  switch (op.call.function) {
    case Function::all_gather:
    case Function::reduce_scatter:
    case Function::all_to_all:
    case Function::gather:
    case Function::scatter:
      return op.bytes() * static_cast<std::size_t>(op.comm->size);
    default:
      return op.bytes();
  }
}

Slice slice_to(int target, const Operation& operation, bool chunked) {
  std::size_t bytes = operation.bytes(), place = static_cast<std::size_t>(target);
  bool from_root = operation.comm->rank == operation.call.root,
       to_root = target == operation.call.root;
  switch (operation.call.function) {
    case Function::all_reduce: {
      if (!chunked) return {0, bytes};
      // The first (count mod n) chunks have one element more.
      auto n = static_cast<std::size_t>(operation.comm->size);
      std::size_t each = operation.call.count / n, more = operation.call.count % n;
      std::size_t element = size_of(static_cast<ncclDataType_t>(operation.call.type));
      std::size_t first = place * each + std::min(place, more);
      return {first * element, (each + (place < more ? 1 : 0)) * element};
    }
    case Function::all_gather:
      return {0, bytes};
    case Function::reduce_scatter:
    case Function::all_to_all:
      return {place * bytes, bytes};
    case Function::broadcast:
      return from_root ? Slice{0, bytes} : Slice();
    case Function::scatter:
      return from_root ? Slice{place * bytes, bytes} : Slice();
    case Function::reduce:
    case Function::gather:
      return to_root ? Slice{0, bytes} : Slice();
    default:
      return {};
  }
}

void copy_to(void* buffer, std::size_t at, const Payload& payload) {
  if (payload.size > 0)
    std::memcpy(static_cast<std::byte*>(buffer) + at, payload.data.get(), payload.size);
}

}  // namespace tidemark::nccl
