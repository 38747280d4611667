#include "harness/virtual/nccl/liveness.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "harness/virtual/nccl/waiting.h"

namespace tidemark::nccl {
namespace {

using Seconds = std::chrono::duration<double>;

// Over TCP every question is a connection that the partner accepts and closes.
constexpr Seconds local_interval{0.1}, tcp_interval{1};
// Messages of a process that has ended may still lie in the kernel, or be on their way: the
// receiving thread reads them meanwhile.
constexpr Seconds grace{1};

// TCP sends its first segment at 0, 1, 3, 7, 15 and 31 s (RFC 6298: one second, doubled each time).
// A network that loses all of the first five is cut; the sixth would come too late. Where ranks
// wait less, the reason is to be said before their time-out.
Seconds silence_limit() { return std::min(Seconds(30), time_limit() / 2); }

}  // namespace

void Liveness::forget() {
  if (socket_ >= 0) ::close(std::exchange(socket_, -1));
  silent_since_ = {};
}

Liveness::Answer Liveness::ask(const Address& own, const Address& partner) {
  const bool local = own.host == partner.host;
  int error = EINPROGRESS;
  if (socket_ < 0) {
    const SocketName name = socket_name(partner, local);
    socket_ = ::socket(name.storage.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (socket_ < 0) return Answer::listens;  // out of files: nothing can be said
    const auto* at = reinterpret_cast<const sockaddr*>(&name.storage);
    error = ::connect(socket_, at, name.length) == 0 ? 0 : errno;
    if (error == EAGAIN && local) error = 0;  // its backlog is full
  }
  if (error == EINPROGRESS) {
    pollfd ready{socket_, POLLOUT, 0};
    if (::poll(&ready, 1, 0) == 0) return Answer::none;
    socklen_t size = sizeof error;
    getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size);
  }
  ::close(std::exchange(socket_, -1));
  if (error == 0) reached_ = true;
  error_ = error;
  if (error == ECONNREFUSED) return Answer::refused;
  return error == 0 ? Answer::listens : Answer::none;
}

std::string Liveness::loss(const Address& own, const Address& partner) {
  const bool local = own.host == partner.host;
  const auto now = Clock::now();
  const Seconds limit = silence_limit();
  // A question of an earlier wait says nothing of this one.
  if (now - std::exchange(called_, now) > limit) forget();
  if (refused_ != Clock::time_point{}) {
    if (now - refused_ <= grace) return "";
    if (reached_ || local) return "has ended";
    return fmt::format("has ended, or a firewall refuses connections from {}", host_of(own));
  }
  if (socket_ < 0) {
    if (now - asked_ < (local ? local_interval : tcp_interval)) return "";
    asked_ = now;
  }
  switch (ask(own, partner)) {
    case Answer::refused:
      refused_ = now;
      [[fallthrough]];
    case Answer::listens:
      silent_since_ = {};
      return "";
    case Answer::none:
      break;
  }
  if (silent_since_ == Clock::time_point{}) silent_since_ = now;
  if (now - silent_since_ <= limit) return "";
  return fmt::format(
      "has not answered {} for {:.3g} s{}: the network is cut, or a firewall drops connections, or "
      "it is the wrong network (NCCL_SOCKET_IFNAME)",
      host_of(own), limit.count(), error_ == 0 ? "" : fmt::format(" ({})", std::strerror(error_)));
}

}  // namespace tidemark::nccl
