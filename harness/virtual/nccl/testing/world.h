// The ranks of NCCL's tests and their communicators, on any CUDA runtime.
#pragma once

#include <gtest/gtest.h>
#include <nccl.h>

#include <cstring>
#include <string>

#include "harness/testing/ranks.h"

namespace tidemark::nccl::testing {

#define EXPECT_NCCL(call) EXPECT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)
#define ASSERT_NCCL(call) ASSERT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)

inline int world_rank() { return tidemark::testing::world().rank(); }
inline int world_size() { return tidemark::testing::world().size(); }
inline void barrier() { tidemark::testing::world().barrier(); }

inline ncclUniqueId new_id() {
  ncclUniqueId id{};
  EXPECT_NCCL(ncclGetUniqueId(&id));
  return id;
}
/// A unique id made by `creator` (a rank of the world) and known to all. Collective over the world.
inline ncclUniqueId shared_id(int creator = 0) {
  ncclUniqueId id{};
  std::string made;
  if (world_rank() == creator) {
    id = new_id();
    made.assign(id.internal, sizeof id.internal);
  }
  const auto all = tidemark::testing::world().exchange(made);
  std::memcpy(id.internal, all.at(static_cast<std::size_t>(creator)).data(), sizeof id.internal);
  return id;
}

inline ncclComm_t join(const ncclUniqueId& id, int size, int rank) {
  ncclComm_t comm = nullptr;
  EXPECT_NCCL(ncclCommInitRank(&comm, size, id, rank));
  return comm;
}
/// A communicator of the whole world, in order. Collective.
inline ncclComm_t world_communicator() { return join(shared_id(), world_size(), world_rank()); }

}  // namespace tidemark::nccl::testing
