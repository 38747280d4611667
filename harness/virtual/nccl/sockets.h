// ZeroMQ sockets of a process: one that listens, at a local name and, where there is a network,
// over TCP; and one for each partner.
//
// Access at the local name, which every user of the machine can find (/proc/net/unix): a connection
// of another user is closed before a byte of it is read (SO_PEERCRED). The kernel tells the user,
// so no key is needed, and payloads between ranks of a machine are not encrypted.
//
// Access over TCP: a listening socket there is a CURVE server (RFC 26, CurveZMQ), and
// nothing listens without. The first command of a client, HELLO, has a box of zeros that is sealed
// for the server's long-term public key; the server closes the connection where the box does not
// open. So a client needs that key, and the key is never on the wire in clear: no command of the
// server has it, and clients have it in the vouch of INITIATE alone, which is encrypted for the
// server's transient key. It is 255 random bits. It is therefore given to the ranks only, as a
// secret: in the unique id, and in the greetings that the id's creator passes on. All else about
// clients is as in NCCL: who knows the unique id may speak. Their own keys are not examined.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "harness/virtual/nccl/address.h"
#include "harness/virtual/nccl/message.h"

struct zmq_msg_t;

namespace tidemark::nccl {

struct ZeroMq;

class Sockets {
 public:
  /// Listens. Gives `own` its key and port, or what it lacks for them. Throws Failure without
  /// ZeroMQ, or where the local name cannot be bound.
  explicit Sockets(Address& own);
  Sockets(const Sockets&) = delete;
  Sockets& operator=(const Sockets&) = delete;

  /// A socket for messages to the partner, who need not reach this process. Throws Failure.
  void* connect(const Address& own, const Address& partner);
  /// Takes the message over. Throws Failure.
  void send(void* socket, const Header& header, const Payload& payload);
  /// Closes; what was sent may leave for `linger_ms`.
  void close(void* socket, int linger_ms);

  /// The next message, as its sender has it; of another version's only `version` and `comm` of the
  /// header count. Null once end() was called.
  MessagePtr receive();
  /// Ends receive() on its thread, with `join`, and waits for what may still leave.
  void end(const std::function<void()>& join);

 private:
  void listen_to_network(Address& own);
  void set(void* socket, int option, int value);
  std::shared_ptr<zmq_msg_t> receive_frame();

  const ZeroMq& zmq_;
  void* library_;
  void* listening_;
  std::array<char, 41> public_{}, secret_{};  // in Z85
};

}  // namespace tidemark::nccl
