#include "harness/virtual/nccl/transport.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <set>
#include <utility>

#include "harness/virtual/nccl/cuda.h"
#include "harness/virtual/nccl/slices.h"
#include "harness/virtual/nccl/staged/proxy.h"

namespace tidemark::nccl {
namespace {

// The operations of a group that use one stream, and the transfer that they become.
struct Passage {
  StagingBuffer* staging;
  std::vector<Operation> operations = {};  // as called
  std::vector<std::byte*> received = {};   // where, in the staging, what they receive will be
  Transfer transfer = {};
  std::uint32_t number = 0;  // of the stream's arrival
};

constexpr std::size_t padded(std::size_t bytes) { return (bytes + 255) / 256 * 256; }

// The operations that two threads enqueue on a stream must not interleave.
std::mutex& order() {
  static auto* mutex = new std::mutex;
  return *mutex;
}

StagingBuffer& staging_of(const Operation& op) {
  static auto* buffers =
      new std::map<std::pair<int, device::StreamHandle>, std::unique_ptr<StagingBuffer>>;
  auto& staging = (*buffers)[{op.comm->device, op.stream}];
  if (!staging) staging = std::make_unique<StagingBuffer>(op.stream);
  return *staging;
}

// No other rank takes part, and nothing is to be computed.
bool is_copy(const Operation& op) {
  return op.comm->alone || (op.comm->size == 1 && is_collective(op.call.function) &&
                            op.call.reduction != Reduction::premul_sum);
}

// This rank's bytes in every place.
void copy_own(const Operation& op) {
  const Parts parts = parts_of(op);
  const std::size_t bytes = op.bytes();
  const auto rank = static_cast<std::size_t>(op.comm->rank);
  const auto* from = static_cast<const std::byte*>(op.send);
  auto* to = static_cast<std::byte*>(op.recv);
  if (from == nullptr || to == nullptr) return;
  StagingBuffer& staging = staging_of(op);
  for (std::size_t part = 0; part < parts.received && parts.sent > 0; ++part) {
    const std::byte* source =
        from + (parts.sent == 1 ? 0 : (parts.received == 1 ? rank : part)) * bytes;
    if (to + part * bytes != source) staging.copy(to + part * bytes, source, bytes);
  }
}

std::size_t size_of(const Operation& op) {
  const Parts parts = parts_of(op);
  return padded(parts.sent * op.bytes()) + padded(parts.received * op.bytes()) +
         (op.device_scalar != nullptr ? 256 : 0);
}

void go_out(Passage& passage) {
  StagingBuffer& staging = *passage.staging;
  std::size_t bytes = 0;
  for (const Operation& op : passage.operations) bytes += size_of(op);
  std::byte* place = staging.room(bytes);
  const auto take = [&](std::size_t size) { return std::exchange(place, place + padded(size)); };
  for (const Operation& op : passage.operations) {
    const Parts parts = parts_of(op);
    Operation staged = op;
    staged.send = take(parts.sent * op.bytes());
    staged.recv = take(parts.received * op.bytes());
    staging.copy(const_cast<void*>(staged.send), op.send, parts.sent * op.bytes());
    if (op.device_scalar != nullptr) {
      staged.device_scalar = take(1);
      staging.copy(const_cast<void*>(staged.device_scalar), op.device_scalar,
                   nccl::size_of(op.call.type));
    }
    passage.received.push_back(static_cast<std::byte*>(staged.recv));
    passage.transfer.exchanges.emplace_back(staged).number();
  }
  passage.transfer.staging = &staging;
  passage.transfer.number = passage.number = staging.arrive();
}

void come_back(const Passage& passage) {
  StagingBuffer& staging = *passage.staging;
  staging.await(passage.number);
  for (std::size_t i = 0; i < passage.operations.size(); ++i) {
    const Operation& op = passage.operations[i];
    staging.copy(op.recv, passage.received[i], parts_of(op).received * op.bytes());
  }
}

void over_the_host(std::vector<Passage>& passages) {
  for (Passage& passage : passages) {
    const cuda::OnDevice on(passage.operations.front().comm->device);
    go_out(passage);
  }
  for (Passage& passage : passages) Proxy::of_process().take(std::move(passage.transfer));
  for (const Passage& passage : passages) {
    const cuda::OnDevice on(passage.operations.front().comm->device);
    come_back(passage);
  }
}

// The runtime has failed somewhere in between: no rank is to wait for the rest.
void give_up(const std::vector<Operation>& operations, const Failure& failure) {
  std::vector<Exchange> exchanges;
  for (const Operation& op : operations) exchanges.emplace_back(op);
  mark_failed(exchanges, failure);
}

// Calls that run on no stream: the ranks meet on the host.
void meet(const std::vector<Operation>& operations) {
  std::vector<Exchange> exchanges;
  for (const Operation& op : operations) exchanges.emplace_back(op).number();
  drive(exchanges);
  finish(exchanges);
}

}  // namespace

void carry_out(const std::vector<Operation>& operations) {
  std::vector<Operation> meetings;
  std::vector<Passage> passages;
  {
    const std::lock_guard lock(order());
    for (const Operation& op : operations) {
      if (op.finish) {
        meetings.push_back(op);
        continue;
      }
      const cuda::OnDevice on(op.comm->device);
      if (is_copy(op)) {
        copy_own(op);
        continue;
      }
      StagingBuffer* staging = &staging_of(op);
      auto place = std::ranges::find(passages, staging, &Passage::staging);
      if (place == passages.end()) place = passages.insert(passages.end(), Passage{staging});
      place->operations.push_back(op);
    }
    try {
      over_the_host(passages);
    } catch (const Failure& failure) {
      give_up(operations, failure);
      throw;
    }
  }
  if (!meetings.empty()) meet(meetings);
}

void settle(ncclComm& comm) { Proxy::of_process().settle(comm); }

double estimate(const std::vector<Operation>&) {
  fail(ncclInvalidUsage, "the staged NCCL estimates no times");
}

bool moves_data(const Operation&) { return true; }
bool bytes_known(const void*, std::size_t) { return true; }
void mark_bytes(void*, std::size_t, bool) {}

std::string clock_setting() { return ""; }

bool stands_for_partners() { return true; }

void note_refusal(const std::string&) {}

const char* not_supported(const char* function) {
  static auto* mutex = new std::mutex;
  static auto* reported = new std::set<std::string>;
  const std::lock_guard lock(*mutex);
  if (reported->insert(function).second)
    std::fprintf(stderr, "tidemark: NCCL's %s is not supported by the staged NCCL\n", function);
  return "not supported by the staged NCCL";
}

}  // namespace tidemark::nccl
