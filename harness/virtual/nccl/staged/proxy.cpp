#include "harness/virtual/nccl/staged/proxy.h"

#include <thread>

#include "harness/virtual/nccl/message_queue.h"

namespace tidemark::nccl {
Proxy& Proxy::of_process() {
  static auto* proxy = new Proxy;  // outlives every thread
  return *proxy;
}

Proxy::Proxy() { std::thread(&Proxy::run, this).detach(); }

void Proxy::take(Transfer transfer) {
  const std::lock_guard lock(mutex_);
  count(transfer, 1);
  taken_.push_back(std::move(transfer));
  changed_.notify_all();
}

void Proxy::settle(const ncclComm& comm) {
  std::unique_lock lock(mutex_);
  if (!changed_.wait_for(lock, time_limit(), [&] { return !pending_.contains(&comm); }))
    fail(ncclRemoteError, "{} still has calls under way after {} s", text_of(comm),
         time_limit().count());
}

void Proxy::count(const Transfer& transfer, int by) {
  for (const Exchange& exchange : transfer.exchanges) {
    const ncclComm* comm = exchange.operation().comm;
    int& pending = pending_[comm];
    pending += by;
    if (pending == 0) pending_.erase(comm);
  }
}

// The stream is always released in the end, also after an error.
bool Proxy::advance(Transfer& transfer) {
  if (!transfer.waiting) {
    if (!transfer.staging->arrived(transfer.number)) return false;
    transfer.waiting.emplace();
  }
  try {
    if (transfer.round == 0) post(transfer.exchanges);
    if (!nccl::advance(transfer.exchanges, transfer.round++, *transfer.waiting)) return false;
  } catch (const Failure& failure) {
    mark_failed(transfer.exchanges, failure);
    remember_error(failure.what(), Moment::afterwards);
  }
  transfer.staging->answer(transfer.number);
  return true;
}

void Proxy::run() {
  std::list<Transfer> under_way;
  Waiting pace;
  for (;;) {
    {
      std::unique_lock lock(mutex_);
      if (under_way.empty()) changed_.wait(lock, [this] { return !taken_.empty(); });
      under_way.splice(under_way.end(), taken_);
    }
    bool moved = false;
    for (auto each = under_way.begin(); each != under_way.end();) {
      if (!advance(*each)) {
        ++each;
        continue;
      }
      moved = true;
      const std::lock_guard lock(mutex_);
      count(*each, -1);
      each = under_way.erase(each);
      changed_.notify_all();
    }
    if (moved)
      pace = Waiting();
    else
      pace.rest();
  }
}

}  // namespace tidemark::nccl
