// Address of a process on the network, as a unique id and greetings carry it. Processes of one
// kernel and one network namespace meet at a local socket, all others over TCP.
#pragma once

#include <nccl.h>
#include <sys/socket.h>

#include <array>
#include <compare>
#include <cstdint>
#include <string>

#include "harness/virtual/nccl/interface.h"

namespace tidemark::nccl {

/// Has the same layout in every version of this library. All bytes zero: no address.
struct Address {
  std::uint64_t random = 0;  // with the process id, the name of the local socket
  std::uint64_t host = 0;    // the same where processes share kernel and network namespace
  std::int32_t pid = 0;
  std::uint16_t port = 0;  // TCP; 0 with a lack
  std::uint8_t family = 0;
  Lack lack = Lack::nothing;
  std::array<std::uint8_t, 16> ip{};
  std::array<std::uint8_t, 32> key{};  // of CURVE, public
  std::array<char, 16> name{};         // the beginning of the host's name

  auto operator<=>(const Address&) const = default;
};
static_assert(sizeof(Address) == NCCL_UNIQUE_ID_BYTES - 40);

/// That of this process, without port and key. Throws Failure: no random bytes.
Address own_address();

/// The name of its local socket: abstract (unix(7)), so that the kernel removes it with the
/// process, however it ends.
std::string local_name(const Address& address);
/// "10.77.0.1", "fd00::2"
std::string ip_of(const Address& address);

struct SocketName {
  sockaddr_storage storage{};
  socklen_t length = 0;
};
/// For connect(2): the local socket, or TCP.
SocketName socket_name(const Address& address, bool local);

/// "host b (10.77.0.2)"
std::string host_of(const Address& address);
/// "process 12", of another host than `seen_from`'s with it and the port.
std::string text_of(const Address& address, const Address& seen_from);

/// Why processes of two hosts cannot meet: which side lacks what. "" where they can.
std::string obstacle(const Address& own, const Address& partner);

}  // namespace tidemark::nccl
