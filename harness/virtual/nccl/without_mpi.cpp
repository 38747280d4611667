// A libnccl without MPI, for machines that have none: the ranks of any launcher meet over sockets.
#include "harness/virtual/nccl/mpi_world.h"
#include "harness/virtual/nccl/network.h"

namespace tidemark::nccl {

bool in_mpi_world() { return false; }

MpiWorld join_world() { return {}; }

std::unique_ptr<Network> make_mpi_network(const MpiWorld&, Inbox) { return nullptr; }

}  // namespace tidemark::nccl
