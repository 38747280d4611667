// The ranks of NCCL's tests and their communicators, on any CUDA runtime.
#pragma once

#include <gtest/gtest.h>
#include <mpi.h>
#include <nccl.h>

namespace tidemark::nccl::testing {

#define EXPECT_NCCL(call) EXPECT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)
#define ASSERT_NCCL(call) ASSERT_EQ((call), ncclSuccess) << ncclGetLastError(nullptr)

inline int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
inline int world_size() {
  int size = 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}
inline void barrier() { MPI_Barrier(MPI_COMM_WORLD); }

inline ncclUniqueId new_id() {
  ncclUniqueId id{};
  EXPECT_NCCL(ncclGetUniqueId(&id));
  return id;
}
/// A unique id made by `creator` (a rank of the world) and known to all. Collective over the world.
inline ncclUniqueId shared_id(int creator = 0) {
  ncclUniqueId id{};
  if (world_rank() == creator) id = new_id();
  MPI_Bcast(&id, sizeof id, MPI_BYTE, creator, MPI_COMM_WORLD);
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
