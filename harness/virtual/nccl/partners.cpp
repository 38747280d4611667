// Messages of an exchange about partners that do not come.
#include <algorithm>

#include "harness/virtual/nccl/exchange.h"

namespace tidemark::nccl {

std::vector<int> Exchange::missing() const {
  const ncclComm& comm = *operation_.comm;
  std::vector<int> ranks;
  for (int source = 0; stage_ != Stage::done && source < size(); ++source) {
    if (awaits(source) && !parts_[static_cast<std::size_t>(source)] &&
        !MessageQueue::of_process().look(comm.id, comm.rank, awaited(), source, number_))
      ranks.push_back(source);
  }
  return ranks;
}

void Exchange::check_partners() {
  ncclComm& comm = *operation_.comm;
  if (comm.alone) return;
  if (comm.state == State::aborted || comm.state == State::destroyed) {
    fail(ncclInternalError, "{} was aborted while it waited in {}", text_of(comm),
         text_of(operation_.call));
  }
  // In this order: what a rank sent before it left is then already here.
  std::vector<Notice> notices = MessageQueue::of_process().notices(comm.id, comm.rank);
  std::vector<int> ranks = missing();
  for (const Notice& notice : notices) {
    if (std::find(ranks.begin(), ranks.end(), notice.source) == ranks.end()) continue;
    fail(notice.failure ? ncclInvalidUsage : ncclRemoteError,
         "{} while rank {} waits for it in {}, call {} on communicator '{}'", notice.text,
         comm.rank, text_of(operation_.call), number_, comm.name);
  }
  for (int rank : ranks) {
    if (process(rank) == here) continue;
    const std::string lost = MessageQueue::of_process().network().loss(
        process(rank), fmt::format("which has rank {}", rank));
    if (lost.empty()) continue;
    fail(ncclRemoteError, "{}: rank {} waits for it in {}, call {} on communicator '{}'", lost,
         comm.rank, text_of(operation_.call), number_, comm.name);
  }
}

std::string Exchange::absent(double seconds) {
  const Operation& op = operation_;
  if (stage_ == Stage::parts && is_collective(op.call.function))
    compare();  // a mismatch says more than a time-out
  std::vector<int> ranks = missing(), waiting;
  if (ranks.empty()) {
    fail(ncclRemoteError, "data of {} has not arrived on rank {} after {} s", text_of(op.call),
         op.comm->rank, seconds);
  }
  for (int rank = 0; rank < size(); ++rank) {
    bool is_missing = std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
    if (is_collective(op.call.function) ? !is_missing : rank == op.comm->rank)
      waiting.push_back(rank);
  }
  std::string text = fmt::format(
      "rank {} has not arrived after {} s: rank {} waits in {}, {} {} on communicator '{}' of {} "
      "ranks",
      fmt::join(ranks, ", "), seconds, fmt::join(waiting, ", "), text_of(op.call),
      is_collective(op.call.function) ? "call" : "message", number_, op.comm->name, size());
  for (int rank : ranks) {
    for (Kind kind : {Kind::part, Kind::message}) {
      auto other = MessageQueue::of_process().waiting(op.comm->id, op.comm->rank, kind, rank);
      if (other)
        text += fmt::format("; rank {} has called {} (not met here)", rank, text_of(other->call));
    }
  }
  return text;
}

}  // namespace tidemark::nccl
