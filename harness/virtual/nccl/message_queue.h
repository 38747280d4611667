// The message queue of a process: messages go out over MPI without ever blocking, and wait here
// until the communicator and rank that they are for ask. All traffic of all communicators uses two
// reserved tags of MPI_COMM_WORLD (a communicator of its own would have to be made by all processes
// together, and sub-groups know nothing of each other).
#pragma once

#include <mpi.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <tuple>
#include <vector>

#include "harness/virtual/nccl/message.h"
#include "harness/virtual/nccl/mpi_world.h"

namespace tidemark::nccl {

/// The process itself, whatever its rank in the world is or will be.
constexpr int here = -1;

/// A rank's last word on a communicator.
struct Notice {
  int source = 0;
  bool failure = false;  // else it only left
  std::string text;
};

class MessageQueue {
 public:
  static MessageQueue& of_process();

  /// Sends over MPI from now on. Before, and for ever in a process without partners, messages stay
  /// in the process.
  void connect(const MpiWorld& world);
  MpiWorld world() const;

  /// Takes the message over at once; `process` is a rank of the MPI world, or here.
  void send(int process, const Header& header, const Payload& payload = {});
  /// Receives what has come, pushes on what is still leaving. Cheap when there is nothing.
  void progress();

  /// Removes and returns a message once it is here with its whole payload.
  MessagePtr take(const CommId& comm, int target, Kind kind, int source, std::uint64_t number);
  /// A message that stays here (hello: several ranks of one process may read it).
  std::optional<Message> look(const CommId& comm, int target, Kind kind, int source,
                              std::uint64_t number);
  std::vector<Notice> notices(const CommId& comm, int target);
  /// The first message of this kind from `source` that waits unread, whatever its number.
  std::optional<Header> waiting(const CommId& comm, int target, Kind kind, int source);

  /// The rank will not ask again: what is here for it goes, what comes later is dropped.
  void forget(const CommId& comm, int target);

  /// MPI is about to be finalised: no more MPI calls.
  void close();

 private:
  using Key =
      std::tuple<CommId, int, Kind, int, std::uint64_t>;  // comm, target, kind, source, number
  struct Arriving {
    MessagePtr message;
    std::vector<MPI_Request> requests;
  };
  struct Leaving {
    std::vector<std::byte> head;
    Payload payload;
    std::vector<MPI_Request> requests;
  };

  MessageQueue() = default;
  void file(MessagePtr message);
  bool receive_one();
  void post(int process, const Header& header, const Payload& payload);
  void advance();
  void deliver_alone();

  mutable std::mutex mutex_;
  std::condition_variable something_leaves_;
  MpiWorld world_;
  bool connected_ = false, closed_ = false, proxy_runs_ = false;
  std::map<Key, MessagePtr> messages_;
  std::map<std::pair<CommId, int>, std::vector<Notice>> notices_;
  std::set<std::pair<CommId, int>> forgotten_;
  std::deque<Arriving> arriving_;
  std::deque<Leaving> leaving_;
};

}  // namespace tidemark::nccl
