// Network interface that ranks of other hosts reach this one over, chosen as NCCL chooses it.
#pragma once

#include <array>
#include <cstdint>

namespace tidemark::nccl {

/// Why a process has no TCP.
enum class Lack : std::uint8_t {
  nothing,
  interface,  // only loopback
  named,      // no interface of NCCL_SOCKET_IFNAME and NCCL_SOCKET_FAMILY
  curve,      // ZeroMQ was built without encryption
  port,       // the address cannot be bound
};

/// "has no network interface but loopback"
const char* text_of(Lack lack);

struct Interface {
  Lack lack = Lack::nothing;
  std::uint8_t family = 0;            // 4 or 6, 0 with a lack
  std::array<std::uint8_t, 16> ip{};  // in network order; the first four bytes with family 4
};

/// The first address of an interface that is up, without loopback and addresses that hold on one
/// link alone. NCCL_SOCKET_IFNAME is a list of prefixes, of exact names after `=`, of what is not
/// taken after `^`; NCCL_SOCKET_FAMILY is AF_INET or AF_INET6. Without a list: interfaces whose
/// names begin with ib, then all but docker and virbr, then docker, then virbr. Source: NCCL's
/// environment variables in its user guide, and ncclFindInterfaces in its src/misc/socket.cc.
Interface choose_interface();

}  // namespace tidemark::nccl
