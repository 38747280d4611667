// The MPI world under the communicators: the one that exists, or, if a launcher started the process
// and MPI is not initialised yet, one that is initialised here.
#pragma once

#include <chrono>

namespace tidemark::nccl {

struct MpiWorld {
  int rank = 0;
  int size = 1;  // 1: no partners outside this process
};

/// Whether this process belongs to an MPI world of several processes, or was launched to do so.
bool in_mpi_world();

/// Throws Failure: MPI without MPI_THREAD_MULTIPLE, already finalised, or not initialised by all
/// within the time-out.
MpiWorld join_world();

/// TIDEMARK_NCCL_ALONE=1: communicators are declared without partners, whatever world there is.
bool declared_alone();

/// How long anything waits for another rank: TIDEMARK_TIMEOUT in seconds (fractions allowed), 300
/// without it.
std::chrono::duration<double> time_limit();

}  // namespace tidemark::nccl
