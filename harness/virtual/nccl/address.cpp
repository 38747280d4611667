#include "harness/virtual/nccl/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstddef>
#include <cstring>
#include <string_view>

#include "harness/virtual/device/text.h"
#include "harness/virtual/nccl/failure.h"
#include "harness/virtual/nccl/message.h"

namespace tidemark::nccl {
namespace {

// An abstract name is found within its network namespace alone (unix(7), network_namespaces(7)).
std::uint64_t this_host() {
  std::string text = text_of_file("/proc/sys/kernel/random/boot_id").value_or("");
  text.resize(std::min(text.find('\n'), text.size()));
  struct stat space {};
  if (stat("/proc/self/ns/net", &space) == 0)
    text += fmt::format(" {} {}", space.st_dev, space.st_ino);
  return hash_of(text.data(), text.size()).high;
}

}  // namespace

Address own_address() {
  Address own;
  if (getrandom(&own.random, sizeof own.random, 0) != sizeof own.random)
    fail(ncclSystemError, "the system gave no random bytes");
  own.host = this_host();
  own.pid = getpid();
  const Interface chosen = choose_interface();
  own.family = chosen.family;
  own.ip = chosen.ip;
  own.lack = chosen.lack;
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  const std::string_view first = std::string_view(name).substr(0, std::string_view(name).find('.'));
  first.copy(own.name.data(), own.name.size());
  return own;
}

std::string local_name(const Address& address) {
  return fmt::format("tidemark-{}-{:016x}", address.pid, address.random);
}

std::string ip_of(const Address& address) {
  char text[INET6_ADDRSTRLEN] = {};
  inet_ntop(address.family == 4 ? AF_INET : AF_INET6, address.ip.data(), text, sizeof text);
  return text;
}

SocketName socket_name(const Address& address, bool local) {
  SocketName name;
  if (local) {
    const std::string text = local_name(address);
    auto* at = reinterpret_cast<sockaddr_un*>(&name.storage);
    at->sun_family = AF_UNIX;
    text.copy(at->sun_path + 1, sizeof at->sun_path - 1);
    name.length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  } else if (address.family == 4) {
    auto* at = reinterpret_cast<sockaddr_in*>(&name.storage);
    at->sin_family = AF_INET;
    at->sin_port = htons(address.port);
    std::memcpy(&at->sin_addr, address.ip.data(), sizeof at->sin_addr);
    name.length = sizeof *at;
  } else {
    auto* at = reinterpret_cast<sockaddr_in6*>(&name.storage);
    at->sin6_family = AF_INET6;
    at->sin6_port = htons(address.port);
    std::memcpy(&at->sin6_addr, address.ip.data(), sizeof at->sin6_addr);
    name.length = sizeof *at;
  }
  return name;
}

std::string host_of(const Address& address) {
  const std::string_view name(address.name.data(),
                              strnlen(address.name.data(), address.name.size()));
  return fmt::format("host {}{}", name,
                     address.family == 0 ? "" : fmt::format(" ({})", ip_of(address)));
}

std::string text_of(const Address& address, const Address& seen_from) {
  std::string text = fmt::format("process {}", address.pid);
  if (address.host == seen_from.host) return text;
  text += " of " + host_of(address);
  if (address.port != 0) text.insert(text.size() - 1, fmt::format(" port {}", address.port));
  return text;
}

std::string obstacle(const Address& own, const Address& partner) {
  if (own.host == partner.host) return "";
  for (const auto& [side, other] : {std::pair{&own, &partner}, {&partner, &own}}) {
    if (side->lack != Lack::nothing)
      return fmt::format("{} {}, and {} is another host", host_of(*side), text_of(side->lack),
                         host_of(*other));
  }
  if (own.family != partner.family)
    return fmt::format("{} has IPv{} and {} IPv{}: set NCCL_SOCKET_FAMILY", host_of(own),
                       own.family, host_of(partner), partner.family);
  return "";
}

}  // namespace tidemark::nccl
