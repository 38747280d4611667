#include "harness/virtual/nccl/unique_id.h"

#include <sys/random.h>

#include <bit>

#include "harness/virtual/nccl/failure.h"
#include "harness/virtual/nccl/message_queue.h"

namespace tidemark::nccl {
namespace {

constexpr std::array<char, 8> magic{'t', 'i', 'd', 'e', 'm', 'a', 'r', 'k'};

}  // namespace

ncclUniqueId new_unique_id() {
  UniqueId id{magic, this_version, {}, MessageQueue::of_process().address()};
  if (getrandom(id.random.data(), id.random.size(), 0) != sizeof id.random)
    fail(ncclSystemError, "the system gave no random bytes");
  return std::bit_cast<ncclUniqueId>(id);
}

CommId id_of(const ncclUniqueId* ids, int count) {
  if (ids == nullptr || count < 1) fail(ncclInvalidArgument, "no unique id was given");
  for (int i = 0; i < count; ++i) {
    if (parts_of(ids[i]).magic != magic)
      fail(ncclInvalidArgument, "the unique id was not made by ncclGetUniqueId of this library");
  }
  return hash_of(ids, static_cast<std::size_t>(count) * sizeof *ids);
}

UniqueId parts_of(const ncclUniqueId& id) { return std::bit_cast<UniqueId>(id); }

}  // namespace tidemark::nccl
