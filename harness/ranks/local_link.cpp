#include "harness/ranks/local_link.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <stdexcept>
#include <thread>

namespace tidemark {
namespace {

// A rank that has ended is given this time: its launching process ends the others meanwhile, and
// knows why it ended.
constexpr std::chrono::seconds kGrace{5};
constexpr std::chrono::seconds kArrival{
    300};  // for rank 0 to listen: it may have to wait for a core

struct Head {
  Tag tag;
  std::uint64_t bytes = 0;
};

int number(const char* name) {
  const char* value = std::getenv(name);
  if (value == nullptr) throw std::runtime_error(std::string(name) + " is not set in this rank");
  return std::atoi(value);
}

std::runtime_error failure(const char* what) {
  return std::runtime_error(std::string(what) + ": " + std::strerror(errno));
}

struct Address {
  sockaddr_un name{};
  socklen_t size = 0;
};

Address address() {
  const char* value = std::getenv(kSocket);
  const std::string text = value != nullptr ? value : "";
  Address result;
  result.name.sun_family = AF_UNIX;
  text.copy(result.name.sun_path + 1, sizeof result.name.sun_path - 1);
  result.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + text.size());
  return result;
}

// One rank at the other end.
struct Peer {
  int socket = -1;
  std::string coming, leaving;
  Link::Clock::time_point ended{};
};

class LocalLink : public Link {
 public:
  LocalLink(int rank, int size);
  ~LocalLink() override;

 private:
  bool push(int target, const Tag& tag, const std::string& text) override;
  bool flush() override;
  void pull() override;
  void require_alive(int source) override;

  void listen_for_others();
  void call_rank_0();
  void accept_those_who_call();
  void read(int source, Peer& peer);
  static void write(Peer& peer);

  int door_ = -1;            // rank 0 listens here
  std::vector<Peer> peers_;  // by rank; without rank 0's all but the first are unused
};

LocalLink::LocalLink(int rank, int size)
    : Link(rank, size), peers_(static_cast<std::size_t>(size)) {
  if (size == 1) return;
  if (rank == 0)
    listen_for_others();
  else
    call_rank_0();
}

LocalLink::~LocalLink() {
  for (const Peer& peer : peers_)
    if (peer.socket >= 0) close(peer.socket);
  if (door_ >= 0) close(door_);
}

void LocalLink::listen_for_others() {
  const Address here = address();
  door_ = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (door_ < 0 || bind(door_, reinterpret_cast<const sockaddr*>(&here.name), here.size) != 0 ||
      listen(door_, size()) != 0)
    throw failure("rank 0 cannot listen for the other ranks");
}

void LocalLink::call_rank_0() {
  const Address there = address();
  Peer& leader = peers_[0];
  leader.socket = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const auto end = Clock::now() + kArrival;
  while (connect(leader.socket, reinterpret_cast<const sockaddr*>(&there.name), there.size) != 0) {
    if (errno == EINTR) continue;
    if ((errno != ECONNREFUSED && errno != EAGAIN) || Clock::now() > end)
      throw failure("rank 0 cannot be reached");
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
  }
  const auto own = static_cast<std::int32_t>(rank());
  if (::send(leader.socket, &own, sizeof own, MSG_NOSIGNAL) != sizeof own)
    throw failure("rank 0 cannot be told that this rank is here");
}

// A caller says its rank first. Only this user's processes are heard.
void LocalLink::accept_those_who_call() {
  for (int caller = 0; (caller = accept4(door_, nullptr, nullptr, SOCK_CLOEXEC)) >= 0;) {
    ucred who{};
    socklen_t size_of_who = sizeof who;
    std::int32_t rank = 0;
    if (getsockopt(caller, SOL_SOCKET, SO_PEERCRED, &who, &size_of_who) == 0 &&
        who.uid == getuid() && recv(caller, &rank, sizeof rank, MSG_WAITALL) == sizeof rank &&
        rank > 0 && rank < size() && peers_[static_cast<std::size_t>(rank)].socket < 0)
      peers_[static_cast<std::size_t>(rank)].socket = caller;
    else
      close(caller);
  }
}

bool LocalLink::push(int target, const Tag& tag, const std::string& text) {
  Peer& peer = peers_.at(static_cast<std::size_t>(target));
  const Head head{tag, text.size()};
  peer.leaving.append(reinterpret_cast<const char*>(&head), sizeof head);
  peer.leaving += text;
  return flush();
}

bool LocalLink::flush() {
  if (door_ >= 0) accept_those_who_call();
  for (Peer& peer : peers_) write(peer);
  return std::ranges::all_of(peers_, [](const Peer& peer) { return peer.leaving.empty(); });
}

void LocalLink::write(Peer& peer) {
  if (peer.ended != Clock::time_point{}) peer.leaving.clear();
  std::size_t gone = 0;
  while (peer.socket >= 0 && gone < peer.leaving.size()) {
    const auto sent = ::send(peer.socket, peer.leaving.data() + gone, peer.leaving.size() - gone,
                             MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0 && errno == EINTR) continue;
    if (sent < 0 && errno != EAGAIN) gone = peer.leaving.size();  // read() notes that it has ended
    if (sent < 0) break;
    gone += static_cast<std::size_t>(sent);
  }
  peer.leaving.erase(0, gone);
}

void LocalLink::pull() {
  if (door_ >= 0) accept_those_who_call();
  for (int source = 0; source < size(); ++source)
    if (Peer& peer = peers_[static_cast<std::size_t>(source)]; peer.socket >= 0) read(source, peer);
}

void LocalLink::read(int source, Peer& peer) {
  std::array<char, 1 << 16> bytes;
  for (;;) {
    const auto came = recv(peer.socket, bytes.data(), bytes.size(), MSG_DONTWAIT);
    if (came < 0 && errno == EINTR) continue;
    if (came < 0 && errno == EAGAIN) break;
    if (came <= 0) {
      if (peer.ended == Clock::time_point{}) peer.ended = Clock::now();
      break;
    }
    peer.coming.append(bytes.data(), static_cast<std::size_t>(came));
  }
  std::size_t at = 0;
  for (Head head; peer.coming.size() - at >= sizeof head;) {
    std::memcpy(&head, peer.coming.data() + at, sizeof head);
    if (peer.coming.size() - at - sizeof head < head.bytes) break;
    file(source, head.tag, peer.coming.substr(at + sizeof head, head.bytes));
    at += sizeof head + head.bytes;
  }
  peer.coming.erase(0, at);
}

void LocalLink::require_alive(int source) {
  for (int rank = 0; rank < size(); ++rank) {
    const Peer& peer = peers_[static_cast<std::size_t>(rank)];
    if ((source == kAny || source == rank) && peer.ended != Clock::time_point{} &&
        Clock::now() - peer.ended > kGrace)
      throw std::runtime_error("rank " + std::to_string(rank) + " has ended before this one");
  }
}

}  // namespace

std::string new_socket_name() {
  std::array<unsigned char, 16> random{};
  if (getrandom(random.data(), random.size(), 0) != static_cast<ssize_t>(random.size()))
    throw std::runtime_error("the system gave no random bytes");
  std::string name = "tidemark-ranks-";
  for (const unsigned char each : random)
    name += {"0123456789abcdef"[each / 16], "0123456789abcdef"[each % 16]};
  return name;
}

std::shared_ptr<Link> local_link() {
  return std::make_shared<LocalLink>(number(kRank), number(kRanks));
}

}  // namespace tidemark
