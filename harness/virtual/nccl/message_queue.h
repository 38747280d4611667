// The message queue of a process: messages leave over the network without ever blocking, and wait
// here until the communicator and rank that they are for ask.
#pragma once

#include <atomic>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "harness/virtual/nccl/message.h"
#include "harness/virtual/nccl/network.h"

namespace tidemark::nccl {

/// A rank's last word on a communicator.
struct Notice {
  int source = 0;
  bool failure = false;  // else it only left
  std::string text;
};

class MessageQueue {
 public:
  static MessageQueue& of_process();

  /// Made with the first call. Before, and for ever in a process without partners, messages stay in
  /// the process. Throws Failure.
  Network& network();
  /// This process's address for a unique id; none (Address) if declared alone or without ZeroMQ.
  Address address();

  /// Takes the message over at once; `process` is a number of the network.
  void send(int process, const Header& header, const Payload& payload = {});
  void close();

  /// Removes and returns a message once it is here.
  MessagePtr take(const CommId& comm, int target, Kind kind, int source, std::uint64_t number);
  /// A message that stays here (hello: several ranks of one process may read it).
  std::optional<Message> look(const CommId& comm, int target, Kind kind, int source,
                              std::uint64_t number);
  std::vector<Notice> notices(const CommId& comm, int target);
  /// The first message of this kind from `source` that waits unread, whatever its number.
  std::optional<Header> waiting(const CommId& comm, int target, Kind kind, int source);

  /// The rank will not ask again: what is here for it goes, what comes later is dropped.
  void forget(const CommId& comm, int target);

 private:
  using Key =
      std::tuple<CommId, int, Kind, int, std::uint64_t>;  // comm, target, kind, source, number

  MessageQueue() = default;
  void file(MessagePtr message);

  std::mutex making_;
  std::atomic<Network*> network_{nullptr};
  mutable std::mutex mutex_;  // of what follows; never held in a call of the network
  std::map<Key, MessagePtr> messages_;
  std::map<std::pair<CommId, int>, std::vector<Notice>> notices_;
  std::set<std::pair<CommId, int>> forgotten_;
};

}  // namespace tidemark::nccl
