#include "harness/virtual/nccl/transport.h"

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>

#include "harness/virtual/device/activity.h"
#include "harness/virtual/device/capture.h"
#include "harness/virtual/device/deferred.h"
#include "harness/virtual/device/known.h"
#include "harness/virtual/device/memory_use.h"
#include "harness/virtual/device/refusal.h"
#include "harness/virtual/nccl/alone.h"
#include "harness/virtual/nccl/cuda.h"
#include "harness/virtual/nccl/drive.h"
#include "harness/virtual/nccl/slices.h"
#include "harness/virtual/nccl/timeline.h"
#include "harness/virtual/nccl/waiting.h"

namespace tidemark::nccl {
namespace {

// For race detection: which bytes a rank's own part of an operation reads and writes, on the stream
// of the call. What the others do to their buffers is ordered by the same kernel: a send buffer may
// be overwritten by what comes after it.
void note_accesses(const Operation& op) {
  if (!op.takes_time() || (op.stays_here() && op.send == op.recv)) return;
  const Parts parts = parts_of(op);
  const cuda::OnDevice on(op.comm->device);
  const char* name = name_of(op.call.function);
  device::note_access(op.stream, name, op.send, parts.sent * op.bytes(), false);
  device::note_access(op.stream, name, op.recv, parts.received * op.bytes(), true);
}

/// The calls of a group, from their begin to their end.
class Calls {
 public:
  /// `host_waits`: the call returns when they are over.
  Calls(const std::vector<Operation>& operations, bool host_waits) : host_waits_(host_waits) {
    for (const Operation& operation : operations) {
      if (operation.send != nullptr) device::note_read(operation.send);
      launches_.push_back(timeline_.add(operation));
      exchanges_.emplace_back(operation).number();
    }
  }

  /// True if they are over.
  bool advance() {
    try {
      if (!failure_) return advance_all();
    } catch (const Failure& failure) {
      fail_all(failure);
    } catch (const std::exception& error) {
      fail_all(Failure(ncclInternalError, error.what()));
    }
    return host_waits_ || failure_->code() != ncclRemoteError || host_knows();
  }

  const std::optional<Failure>& failure() const { return failure_; }

 private:
  bool advance_all() {
    if (!waiting_) begin();
    if (!nccl::advance(exchanges_, round_++, *waiting_)) return false;
    for (std::size_t i = 0; i < exchanges_.size(); ++i)
      timeline_.take_in(launches_[i], exchanges_[i].latest());
    timeline_.end(true);
    for (const Exchange& exchange : exchanges_) note_accesses(exchange.operation());
    finish(exchanges_);
    return true;
  }

  // A collective whose partner is gone never ends on a GPU: the host sees the communicator's error
  // first. A host that does not ask for it goes on after a while.
  bool host_knows() const {
    constexpr std::chrono::seconds kWhile{10};  // longer than a query waits (deferred.h)
    return std::chrono::steady_clock::now() - failed_at_ > kWhile ||
           std::ranges::all_of(exchanges_, [](const Exchange& exchange) {
             const ncclComm& comm = *exchange.operation().comm;
             return comm.error_is_told || comm.state != State::live;
           });
  }

  void fail_all(const Failure& failure) {
    mark_failed(exchanges_, failure);
    remember_error(failure.what(), Moment::afterwards);
    timeline_.end(false);
    failure_ = failure;
    failed_at_ = std::chrono::steady_clock::now();
  }

  void begin() {
    waiting_.emplace();
    timeline_.begin();
    for (std::size_t i = 0; i < exchanges_.size(); ++i) {
      const Operation& operation = exchanges_[i].operation();
      const bool timed = operation.takes_time() && !operation.stays_here();
      if (timed) exchanges_[i].starts_at(timeline_.start(launches_[i]));
      if (operation.comm->alone && device::follows_known()) stand_in(operation);
    }
    post(exchanges_);
  }

  Timeline timeline_;
  std::vector<std::size_t> launches_;
  std::vector<Exchange> exchanges_;
  std::optional<Waiting> waiting_;
  std::optional<Failure> failure_;
  std::chrono::steady_clock::time_point failed_at_;
  int round_ = 0;
  bool host_waits_;
};

// The result of a split is wanted at once, and another thread has another default stream.
bool holds_the_host(const Operation& operation) {
  return operation.finish || reinterpret_cast<std::uintptr_t>(operation.stream) == 2;
}

}  // namespace

namespace {

bool is_captured(const Operation& operation) {
  const cuda::OnDevice on(operation.comm->device);
  return device::is_capturing(operation.stream);
}

// The calls of a group become one operation of a CUDA graph, and are made again at each launch.
void capture(const std::vector<Operation>& operations, const Operation& first) {
  const cuda::OnDevice on(first.comm->device);
  device::capture_run(first.stream, kernel_name(first.call),
                      [operations](device::StreamHandle stream) {
                        std::vector<Operation> again = operations;
                        for (Operation& operation : again) operation.stream = stream;
                        try {
                          carry_out(again);
                        } catch (const Failure& failure) {  // the communicator has the error
                          remember_error(failure.what(), Moment::afterwards);
                        }
                      });
}

}  // namespace

void carry_out(const std::vector<Operation>& operations) {
  const auto captured = std::ranges::find_if(operations, is_captured);
  if (captured != operations.end()) return capture(operations, *captured);
  device::before_collectives();
  const bool host_waits = waits_in_call() || std::ranges::any_of(operations, holds_the_host);
  const auto calls = std::make_shared<Calls>(operations, host_waits);
  const Operation& first = operations.front();
  {
    const cuda::OnDevice on(first.comm->device);
    const device::CallRecord call(device::Api::runtime, "cudaLaunchKernelExC");
    device::defer(first.stream, [calls] { return calls->advance(); });
    if (host_waits) device::settle(first.stream);
  }
  if (!device::is_deferring() && calls->failure()) throw Failure(*calls->failure());
}

void settle(ncclComm&) { device::settle(); }

double estimate(const std::vector<Operation>& operations) {
  Timeline timeline;
  for (const Operation& operation : operations) timeline.add(operation);
  return static_cast<double>(timeline.estimate()) / 1000;
}

bool moves_data(const Operation& op) {
  if (!device::follows_known()) return device::data_moves();
  const bool integer = op.call.type <= ncclUint64;  // the first in the list
  const std::uint64_t limit = device::known_limit() * (integer ? device::kWholeFactor : 1);
  return largest_buffer(op) <= limit;
}

bool bytes_known(const void* address, std::size_t bytes) {
  return !device::follows_known() || device::is_known(address, bytes);
}
void mark_bytes(void* address, std::size_t bytes, bool known) {
  if (device::follows_known()) device::mark_known(address, bytes, known);
}

std::string clock_setting() { return device::clock_setting(); }

bool stands_for_partners() { return device::follows_known(); }

void note_refusal(const std::string& words) { device::note_refusal(words); }

const char* not_supported(const char* function) {
  constexpr const char* kWords = "not supported by the virtual device";
  device::not_supported("NCCL", function);
  note_refusal(kWords);
  return kWords;
}

}  // namespace tidemark::nccl
