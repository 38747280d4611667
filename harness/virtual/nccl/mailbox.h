// Every process's one mailbox: letters go out over MPI without ever blocking, and wait here until
// the communicator and rank that they are for ask. All traffic of all communicators uses two
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

#include "harness/virtual/nccl/letter.h"
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

class Mailbox {
 public:
  static Mailbox& of_process();

  /// Sends over MPI from now on. Before, and for ever in a process without partners, letters stay
  /// in the process.
  void connect(const MpiWorld& world);
  MpiWorld world() const;

  /// Takes the letter over at once; `process` is a rank of the MPI world, or here.
  void send(int process, const Header& header, const Payload& payload = {});
  /// Receives what has come, pushes on what is still leaving. Cheap when there is nothing.
  void progress();

  /// Removes and returns a letter once it is here with its whole payload.
  LetterPtr take(const CommId& comm, int target, Kind kind, int source, std::uint64_t number);
  /// A letter that stays here (hello: several ranks of one process may read it).
  std::optional<Letter> look(const CommId& comm, int target, Kind kind, int source,
                             std::uint64_t number);
  std::vector<Notice> notices(const CommId& comm, int target);
  /// The first letter of this kind from `source` that waits unread, whatever its number.
  std::optional<Header> waiting(const CommId& comm, int target, Kind kind, int source);

  /// The rank will not ask again: what is here for it goes, what comes later is dropped.
  void forget(const CommId& comm, int target);

  /// MPI is about to be finalised: no more MPI calls.
  void close();

 private:
  using Key =
      std::tuple<CommId, int, Kind, int, std::uint64_t>;  // comm, target, kind, source, number
  struct Arriving {
    LetterPtr letter;
    std::vector<MPI_Request> requests;
  };
  struct Leaving {
    std::vector<std::byte> head;
    Payload payload;
    std::vector<MPI_Request> requests;
  };

  Mailbox() = default;
  void file(LetterPtr letter);
  bool receive_one();
  void post(int process, const Header& header, const Payload& payload);
  void advance();
  void deliver_alone();

  mutable std::mutex mutex_;
  std::condition_variable something_leaves_;
  MpiWorld world_;
  bool connected_ = false, closed_ = false, courier_runs_ = false;
  std::map<Key, LetterPtr> letters_;
  std::map<std::pair<CommId, int>, std::vector<Notice>> notices_;
  std::set<std::pair<CommId, int>> forgotten_;
  std::deque<Arriving> arriving_;
  std::deque<Leaving> leaving_;
};

}  // namespace tidemark::nccl
