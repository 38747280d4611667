#include "harness/virtual/nccl/drive.h"

#include <set>

namespace tidemark::nccl {

bool advance(std::vector<Exchange>& exchanges, int round, const Waiting& waiting) {
  bool done = true;
  for (Exchange& exchange : exchanges) {
    if (exchange.advance()) continue;
    done = false;
    if (round % 16 == 15) {
      ncclComm& comm = *exchange.operation().comm;
      if (poll_error(comm) != ncclSuccess) throw Failure(comm.error, comm.error_text);
      exchange.check_partners();
    }
    if (waiting.too_long())
      throw Failure(ncclRemoteError, exchange.absent(waiting.limit_seconds()));
  }
  return done;
}

void post(std::vector<Exchange>& exchanges) {
  for (Exchange& exchange : exchanges) {
    const ncclComm& comm = *exchange.operation().comm;
    if (comm.state == State::aborted)
      fail(ncclInternalError, "{} was aborted before its {} could run", text_of(comm),
           text_of(exchange.operation().call));
    exchange.post();
  }
}

void drive(std::vector<Exchange>& exchanges) try {
  post(exchanges);
  Waiting waiting;
  for (int round = 0;; ++round) {
    if (advance(exchanges, round, waiting)) return;
    waiting.rest();
  }
} catch (const Failure& failure) {
  mark_failed(exchanges, failure);
  throw;
}

void finish(const std::vector<Exchange>& exchanges) {
  for (const Exchange& exchange : exchanges) {
    if (exchange.operation().finish) exchange.operation().finish(exchange);
  }
}

void mark_failed(const std::vector<Exchange>& exchanges, const Failure& failure) {
  std::set<ncclComm*> seen;
  for (const Exchange& exchange : exchanges) {
    ncclComm* comm = exchange.operation().comm;
    if (!seen.insert(comm).second) continue;
    set_error(*comm, failure.code(), failure.what());
    if (comm->alone || comm->state != State::live) continue;
    std::string text = fmt::format("rank {} has failed ({})", comm->rank, failure.what());
    for (int target = 0; target < comm->size; ++target) {
      if (target != comm->rank) notify(*comm, target, false, text);
    }
  }
}

}  // namespace tidemark::nccl
