#include "harness/virtual/nccl/group.h"

#include <optional>

#include "harness/virtual/nccl/transport.h"

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

}  // namespace

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
  if (!closed.requests.empty()) bootstrap(closed.requests);
  if (closed.operations.empty()) return;
  for (const Operation& operation : closed.operations) check_usable(operation.comm);
  carry_out(closed.operations);
}

double simulate_group() {
  if (group.depth == 0)
    fail(ncclInvalidUsage, "no group is open on this thread: ncclGroupStart comes first");
  Group closed = group.close();
  if (closed.failure) throw Failure(*closed.failure);
  return estimate(closed.operations);
}

void submit(const Operation& operation) {
  if (group.depth > 0) {
    group.operations.push_back(operation);
  } else {
    carry_out({operation});
  }
}

void submit(const Request& request) {
  if (group.depth > 0) {
    group.requests.push_back(request);
  } else {
    bootstrap({request});
  }
}

}  // namespace tidemark::nccl
