// Bootstrap of ranks that only share a unique id. Every rank greets every process of the MPI world
// with "I am rank r of n of this id" and collects the greetings of the others: no process has to
// serve, and the id's creator need not take part.
#pragma once

#include <vector>

#include "harness/virtual/nccl/communicator.h"

namespace tidemark::nccl {

/// A communicator asked for by ncclCommInitRank and its like.
struct Request {
  ncclComm_t* result;
  int size, rank;
  CommId id;
  const ncclConfig_t* config = nullptr;
  int device = 0;
};

ncclUniqueId new_unique_id();
/// The communicator's id from one or several unique ids. Throws Failure when one is not from
/// new_unique_id.
CommId id_of(const ncclUniqueId* ids, int count);

/// Makes all of them, or none (Failure: bad ranks, ranks that contradict each other, a rank that
/// does not come). Without an MPI world a request whose n ranks are all in `requests` gets its
/// partners, any other is alone.
void bootstrap(const std::vector<Request>& requests);

}  // namespace tidemark::nccl
