#include "harness/virtual/nccl/slices.h"

#include <algorithm>
#include <cstring>

namespace tidemark::nccl {

namespace {

Parts parts_of(const Operation& op, bool root) {
  const auto all = static_cast<std::size_t>(op.comm->size);
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

// The first (count mod n) chunks have one element more.
Slice chunk_of(std::size_t place, const Operation& op) {
  auto n = static_cast<std::size_t>(op.comm->size);
  std::size_t each = op.call.count / n, more = op.call.count % n;
  std::size_t element = size_of(op.call.type);
  std::size_t first = place * each + std::min(place, more);
  return {first * element, (each + (place < more ? 1 : 0)) * element};
}

}  // namespace

Parts parts_of(const Operation& op) { return parts_of(op, op.comm->rank == op.call.root); }

std::size_t largest_buffer(const Operation& op) {
  const Parts parts = parts_of(op, true);
  return std::max(parts.sent, parts.received) * op.bytes();
}

Slice slice_to(int target, const Operation& op, bool chunked) {
  const auto place = static_cast<std::size_t>(target);
  if (op.call.function == Function::all_reduce && chunked) return chunk_of(place, op);
  const bool for_root =
      op.call.function == Function::reduce || op.call.function == Function::gather;
  const std::size_t sent = parts_of(op).sent;
  if (sent == 0 || (for_root && target != op.call.root)) return {};
  return {sent > 1 ? place * op.bytes() : 0, op.bytes()};
}

void copy_to(void* buffer, std::size_t at, const Payload& payload) {
  if (payload.size > 0)
    std::memcpy(static_cast<std::byte*>(buffer) + at, payload.data.get(), payload.size);
}

}  // namespace tidemark::nccl
