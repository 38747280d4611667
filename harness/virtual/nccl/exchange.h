// One operation of one rank: it sends its own part at once, and then receives the parts of the
// others as they arrive. It never blocks, and its caller (group.h) may run several at once, so no
// order of calls within a group can deadlock.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/virtual/device/device.h"
#include "harness/virtual/nccl/communicator.h"
#include "harness/virtual/nccl/message_queue.h"

namespace tidemark::nccl {

class Exchange;

struct Operation {
  ncclComm* comm = nullptr;
  Call call;
  const void* send = nullptr;
  void* recv = nullptr;
  device::StreamHandle stream = nullptr;
  std::int64_t words[2] = {0, 0};  // see Header
  const void* device_scalar =
      nullptr;  // premul-sum with ncclScalarDevice: read when the operation runs

  std::function<void(const Exchange&)> finish;  // after the group has completed

  std::size_t bytes() const;  // count elements
  bool takes_time() const;    // an empty collective does not; it is matched all the same
  bool stays_here() const;    // the only rank, or a message to itself
};

class Exchange {
 public:
  explicit Exchange(const Operation& operation) : operation_(operation) {}

  /// When this rank's stream is ready, ns, unless the operation takes no time.
  void starts_at(device::Ns start) { start_ = latest_ = start; }

  /// Takes the operation's number on its communicator, in program order.
  void number();
  /// Sends this rank's own part.
  void post();
  /// True if everything is here and the result written. Throws Failure when the ranks' calls do not
  /// match.
  bool advance();
  /// Throws Failure when what is still missing will never come: aborted, or a rank has left or
  /// failed.
  void check_partners();
  /// Text: the ranks that are missing, and those that wait for them in which call.
  std::string absent(double seconds);

  const Operation& operation() const { return operation_; }
  /// The latest start of all participants that this rank waited for.
  device::Ns latest() const { return latest_; }
  const std::vector<MessagePtr>& parts() const { return parts_; }

 private:
  enum class Stage { parts, chunks, done };

  bool chunked() const;
  Kind awaited() const;
  bool awaits(int source) const;
  Payload slice_for(int target);
  void send(Kind kind, int target, const Payload& payload) const;
  bool take_parts();
  void compare() const;
  void compare_message() const;
  void assemble();
  bool reduce_parts(void* to, std::size_t bytes) const;
  void receive(std::size_t at, std::size_t bytes, const Message& part) const;
  void send_reduced_chunk();
  void copy_chunks();
  std::vector<int> missing() const;
  int process(int rank) const {
    return operation_.comm->members.processes[static_cast<std::size_t>(rank)];
  }
  int size() const { return operation_.comm->size; }

  Operation operation_;
  Stage stage_ = Stage::parts;
  std::uint64_t number_ = 0;
  device::Ns start_ = -1, latest_ = -1;
  Payload whole_;                  // the send buffer, when several ranks get all of it
  std::vector<MessagePtr> parts_;  // by rank
};

}  // namespace tidemark::nccl
