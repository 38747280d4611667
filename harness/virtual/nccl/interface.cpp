#include "harness/virtual/nccl/interface.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <string_view>

namespace tidemark::nccl {
namespace {

std::string_view variable(const char* name) {
  const char* text = std::getenv(name);
  return text == nullptr ? "" : text;
}

bool is_chosen(std::string_view name, std::string_view list) {
  const bool except = list.starts_with('^');
  if (except) list.remove_prefix(1);
  const bool exact = list.starts_with('=');
  if (exact) list.remove_prefix(1);
  bool listed = false;
  while (!list.empty()) {
    std::string_view one = list.substr(0, list.find(','));
    list.remove_prefix(std::min(one.size() + 1, list.size()));
    one = one.substr(0, one.find(':'));  // NCCL permits a port there
    listed = listed || (!one.empty() && (exact ? name == one : name.starts_with(one)));
  }
  return listed != except;
}

std::optional<Interface> of(const ifaddrs& each, std::string_view family) {
  if (each.ifa_addr == nullptr || !(each.ifa_flags & IFF_UP) || (each.ifa_flags & IFF_LOOPBACK))
    return std::nullopt;
  Interface interface;
  if (each.ifa_addr->sa_family == AF_INET && family != "AF_INET6") {
    interface.family = 4;
    std::memcpy(interface.ip.data(), &reinterpret_cast<const sockaddr_in*>(each.ifa_addr)->sin_addr,
                4);
    return interface;
  }
  if (each.ifa_addr->sa_family == AF_INET6 && family != "AF_INET") {
    const in6_addr& ip = reinterpret_cast<const sockaddr_in6*>(each.ifa_addr)->sin6_addr;
    if (IN6_IS_ADDR_LINKLOCAL(&ip)) return std::nullopt;
    interface.family = 6;
    std::memcpy(interface.ip.data(), &ip, 16);
    return interface;
  }
  return std::nullopt;
}

}  // namespace

const char* text_of(Lack lack) {
  switch (lack) {
    case Lack::interface:
      return "has no network interface but loopback";
    case Lack::named:
      return "has no network interface that its NCCL_SOCKET_IFNAME or NCCL_SOCKET_FAMILY permits";
    case Lack::curve:
      return "has a ZeroMQ without encryption (zmq_has(\"curve\"))";
    case Lack::port:
      return "cannot listen on its network interface";
    default:
      return "has TCP";
  }
}

Interface choose_interface() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {.lack = Lack::interface};
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> all(first, freeifaddrs);
  const std::string_view family = variable("NCCL_SOCKET_FAMILY");
  const auto find = [&](std::string_view list) {
    std::optional<Interface> match;
    for (const ifaddrs* each = first; each != nullptr && !match; each = each->ifa_next) {
      if (is_chosen(each->ifa_name, list)) match = of(*each, family);
    }
    return match;
  };
  if (const std::string_view named = variable("NCCL_SOCKET_IFNAME"); !named.empty())
    return find(named).value_or(Interface{.lack = Lack::named});
  for (const char* list : {"ib", "^docker,virbr", "docker", "virbr"}) {
    if (const auto match = find(list)) return *match;
  }
  return {.lack = family.empty() ? Lack::interface : Lack::named};
}

}  // namespace tidemark::nccl
