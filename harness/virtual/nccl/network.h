// Network between processes: sockets, which need no launcher, as those of real NCCL.
#pragma once

#include <nccl.h>

#include <functional>
#include <memory>
#include <string>

#include "harness/virtual/nccl/message.h"

namespace tidemark::nccl {

/// The receiver of messages; called on any thread.
struct Inbox {
  std::function<void(MessagePtr)> arrived;           // the payload may be still under way,
  std::function<void(const MessagePtr&)> completed;  // and is complete with this second call
};

class Network {
 public:
  virtual ~Network() = default;

  /// The number of this process on the network; other processes have other numbers.
  virtual int own() const { return 0; }
  /// Tells every process that may share the unique id which rank is here (Kind::hello). Returns the
  /// process that the other ranks' greetings depend on. Throws Failure.
  virtual int greet(const Header& hello, const ncclUniqueId& id) = 0;
  /// Takes the message over; never waits for the receiver.
  virtual void send(int process, const Header& header, const Payload& payload) = 0;
  /// Receives what has come, pushes on what is still leaving. Cheap when there is nothing.
  virtual void progress() {}
  /// Whether the process has ended, and what it sent before has come.
  virtual bool has_ended(int /*process*/) { return false; }
  virtual std::string name_of(int process) const = 0;
  /// Waits until partners that live have what was sent. Nothing is sent from then on.
  virtual void close() {}
  /// This process's address for a unique id; "" where none is needed.
  virtual std::string address() const { return ""; }
};

/// Over ZeroMQ, between the processes of a machine. The unique id holds the address of its creator,
/// who introduces the ranks to each other. Throws Failure where ZeroMQ is not installed.
std::unique_ptr<Network> make_socket_network(Inbox inbox);

/// Place of the creator's address in a unique id, and its greatest length.
inline constexpr std::size_t address_at = 40, address_size = NCCL_UNIQUE_ID_BYTES - address_at;
}  // namespace tidemark::nccl
