// The thread that exchanges what the streams have brought to the host. It makes no CUDA call.
#pragma once

#include <condition_variable>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "harness/virtual/nccl/drive.h"
#include "harness/virtual/nccl/staged/staging_buffer.h"

namespace tidemark::nccl {

/// Data that the calls of a group exchange on one stream, in the host's memory.
struct Transfer {
  StagingBuffer* staging = nullptr;
  std::uint32_t number = 0;             // of the stream's arrival
  std::vector<Exchange> exchanges;      // numbered, not posted
  std::optional<Waiting> waiting = {};  // since the stream has arrived
  int round = 0;
};

class Proxy {
 public:
  static Proxy& of_process();

  /// Takes it over. All transfers are under way together, so that no order of calls on several
  /// streams or communicators can deadlock.
  void take(Transfer transfer);
  /// Waits until none of the communicator is left. Throws Failure after time_limit().
  void settle(const ncclComm& comm);

 private:
  Proxy();
  void run();
  static bool advance(Transfer& transfer);
  void count(const Transfer& transfer, int by);

  std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Transfer> taken_;  // not yet seen by the thread
  std::map<const ncclComm*, int> pending_;
};

}  // namespace tidemark::nccl
