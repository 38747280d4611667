// Bootstrap of ranks that only share a unique id. Every rank greets the others with "I am rank r of
// n of this id" over the network (network.h), and collects their greetings. The id's creator
// introduces the ranks, and need not be one of them.
#pragma once

#include <vector>

#include "harness/virtual/nccl/communicator.h"

namespace tidemark::nccl {

/// A communicator asked for by ncclCommInitRank and its like.
struct Request {
  ncclComm_t* result;
  int size, rank;
  ncclUniqueId unique;  // the first, of several
  CommId id;
  const ncclConfig_t* config = nullptr;
  int device = 0;
};

/// Makes all of them, or none (Failure: bad ranks, ranks that contradict each other, a rank that
/// does not come). With TIDEMARK_NCCL_ALONE=1 a request whose n ranks are all in `requests` gets
/// its partners, any other is alone.
void bootstrap(const std::vector<Request>& requests);

}  // namespace tidemark::nccl
