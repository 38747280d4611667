// Unique id: a random number that names a communicator, and the address of the process that made
// it, which introduces the ranks to each other. Over TCP it is also the key (sockets.h).
#pragma once

#include <nccl.h>

#include <array>

#include "harness/virtual/nccl/address.h"
#include "harness/virtual/nccl/message.h"

namespace tidemark::nccl {

/// Has the same layout in every version of this library.
struct UniqueId {
  std::array<char, 8> magic;
  Version version;  // of the creator
  std::array<std::uint8_t, 16> random;
  Address creator;
};
static_assert(sizeof(UniqueId) == NCCL_UNIQUE_ID_BYTES);

ncclUniqueId new_unique_id();
/// The communicator's id from one or several unique ids. Throws Failure when one is not from
/// new_unique_id.
CommId id_of(const ncclUniqueId* ids, int count);

UniqueId parts_of(const ncclUniqueId& id);

}  // namespace tidemark::nccl
