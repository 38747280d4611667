#include "harness/virtual/nccl/group.h"

#include <optional>
#include <set>

#include "harness/virtual/nccl/accesses.h"
#include "harness/virtual/nccl/timeline.h"
#include "harness/virtual/nccl/waiting.h"

namespace tidemark::nccl {
namespace {

struct Group {
  int depth = 0;
  std::vector<Operation> operations;
  std::vector<Request> requests;
  std::optional<Failure> failure;

  Group close() {
    Group closed = std::move(*this);
    *this = Group();
    return closed;
  }
};
thread_local Group group;

// Whoever waits for this rank on one of these communicators need not wait for the time-out.
void mark_failed(const std::vector<Exchange>& exchanges, const Failure& failure) {
  std::set<ncclComm*> comms;
  for (const Exchange& exchange : exchanges) comms.insert(exchange.operation().comm);
  for (ncclComm* comm : comms) {
    set_error(*comm, failure.code(), failure.what());
    if (comm->alone || comm->state != State::live) continue;
    std::string text = fmt::format("rank {} has failed ({})", comm->rank, failure.what());
    for (int target = 0; target < comm->size; ++target) {
      if (target != comm->rank) notify(*comm, target, false, text);
    }
  }
}

void drive(std::vector<Exchange>& exchanges) {
  Waiting waiting;
  for (int round = 0;; ++round) {
    bool done = true;
    Mailbox::of_process().progress();
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
    if (done) return;
    waiting.rest();
  }
}

}  // namespace

void run(const std::vector<Operation>& operations) {
  std::vector<Exchange> exchanges;
  Timeline timeline;
  std::vector<std::size_t> launches;
  for (const Operation& operation : operations) {
    Exchange& exchange = exchanges.emplace_back(operation);
    exchange.number();
    launches.push_back(timeline.add(operation));
  }
  timeline.begin();
  try {
    for (std::size_t i = 0; i < exchanges.size(); ++i) {
      bool timed = operations[i].takes_time() && !operations[i].stays_here();
      exchanges[i].post(timed ? timeline.start(launches[i]) : -1);
    }
    drive(exchanges);
  } catch (const Failure& failure) {
    timeline.end(false);
    mark_failed(exchanges, failure);
    throw;
  }
  for (std::size_t i = 0; i < exchanges.size(); ++i)
    timeline.take_in(launches[i], exchanges[i].latest());
  timeline.end(true);
  for (const Operation& operation : operations) note_accesses(operation);
  for (const Exchange& exchange : exchanges) {
    if (exchange.operation().finish) exchange.operation().finish(exchange);
  }
}

void start_group() { ++group.depth; }

void fail_group(ncclResult_t code, const char* text) {
  if (group.depth > 0 && !group.failure) group.failure.emplace(code, text);
}

void end_group() {
  if (group.depth == 0)
    fail(ncclInvalidUsage, "no group is open on this thread: ncclGroupStart comes first");
  if (--group.depth > 0) return;
  Group closed = group.close();
  if (closed.failure) throw Failure(*closed.failure);
  if (!closed.requests.empty() && !closed.operations.empty()) {
    fail(ncclInvalidUsage, "a group holds either communicators to make or operations, not both");
  }
  if (!closed.requests.empty()) meet(closed.requests);
  if (closed.operations.empty()) return;
  for (const Operation& operation : closed.operations) check_usable(operation.comm);
  run(closed.operations);
}

double simulate_group() {
  if (group.depth == 0)
    fail(ncclInvalidUsage, "no group is open on this thread: ncclGroupStart comes first");
  Group closed = group.close();
  if (closed.failure) throw Failure(*closed.failure);
  Timeline timeline;
  for (const Operation& operation : closed.operations) timeline.add(operation);
  return static_cast<double>(timeline.estimate()) / 1000;
}

void submit(const Operation& operation) {
  if (group.depth > 0) {
    group.operations.push_back(operation);
  } else {
    run({operation});
  }
}

void submit(const Request& request) {
  if (group.depth > 0) {
    group.requests.push_back(request);
  } else {
    meet({request});
  }
}

}  // namespace tidemark::nccl
