// Network between the processes of a job, whatever launcher started them. The unique id holds the
// address of its creator, which introduces the ranks to each other; from then on every process
// sends straight to every other.
#pragma once

#include <nccl.h>

#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "harness/virtual/nccl/address.h"
#include "harness/virtual/nccl/liveness.h"
#include "harness/virtual/nccl/message.h"
#include "harness/virtual/nccl/sockets.h"

namespace tidemark::nccl {

/// The process itself, as a number of the network.
inline constexpr int here = 0;

class Network {
 public:
  /// `arrived` takes each message, on any thread. Throws Failure where ZeroMQ is not installed, or
  /// there is no socket. What else the process lacks for TCP is an error once a partner of another
  /// host is there.
  explicit Network(std::function<void(MessagePtr)> arrived, const Address& own = own_address());
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// Tells every process that shares the unique id which rank is here (Kind::hello), with a text
  /// for them. Returns the number of the id's creator, which the greetings of the other ranks
  /// depend on. Throws Failure.
  int greet(const Header& hello, const std::string& text, const ncclUniqueId& id);
  /// Takes the message over; never waits for the receiver.
  void send(int process, const Header& header, const Payload& payload);
  /// Why nothing more will come from the process, in words with its `role` ("which has rank 1"); ""
  /// while it may.
  std::string loss(int process, const std::string& role);
  /// Why messages cannot reach the process at all: which host lacks what; "" where they can.
  std::string obstacle_to(int process) const;
  /// Another version of this library that has greeted for the communicator, and this one: in words.
  std::string other_version(const CommId& comm) const;
  /// "process 12", with its host where that is another than `seen_from`'s.
  std::string name_of(int process, int seen_from = here) const;
  /// Text of the process's address for other hosts, for a message about ranks that did not arrive.
  std::string place_of(int process) const;
  /// Waits until partners that live have what was sent. Nothing is sent from then on.
  void close();
  /// This process's address for a unique id.
  const Address& address() const { return own_; }

 private:
  struct Partner {
    Address address;
    void* socket = nullptr;  // made with the first message
    Liveness liveness{};
  };

  int number_of(const Address& address);
  const Partner& partner(int process) const {
    return partners_.at(static_cast<std::size_t>(process));
  }
  void send_locked(int process, const Header& header, const Payload& payload);
  void introduce(const Header& greeting, const Payload& introduction);
  void receive();
  bool take_introduction(Message& message);

  const std::function<void(MessagePtr)> arrived_;
  Address own_;
  Sockets sockets_;  // completes own_
  std::thread receiving_;

  mutable std::mutex mutex_;  // of what follows
  bool closed_ = false;
  std::deque<Partner> partners_;  // by number; the first is this process
  std::map<CommId, std::vector<std::pair<Header, Payload>>> greetings_;  // of our unique ids
  std::map<CommId, std::string> other_versions_;
};

/// The text of a hello.
std::string text_of(const Message& hello);

}  // namespace tidemark::nccl
