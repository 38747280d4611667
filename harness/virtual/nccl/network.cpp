// Every process listens on one socket of a random name, and connects to those of its partners.
// Names are abstract (unix(7)): the kernel removes them with the process, however it ends.
#include "harness/virtual/nccl/network.h"

#include <sys/random.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <map>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "harness/virtual/nccl/failure.h"
#include "harness/virtual/nccl/zeromq.h"

namespace tidemark::nccl {
namespace {

constexpr auto probe_interval = std::chrono::milliseconds(100);
// What a process had sent when it ended still lies in the kernel: the receiving thread reads it
// meanwhile.
constexpr auto grace = std::chrono::seconds(1);
constexpr int linger_ms = 10000;  // at exit, for what a living partner has not yet read

std::string new_address() {
  std::uint64_t random = 0;
  if (getrandom(&random, sizeof random, 0) != sizeof random)
    fail(ncclSystemError, "the system gave no random bytes");
  return fmt::format("tidemark-{}-{:016x}", getpid(), random);
}

// Whether a process still listens at the address; one that is stopped or busy does.
bool listens(const std::string& address) {
  sockaddr_un name{};
  name.sun_family = AF_UNIX;
  address.copy(name.sun_path + 1, sizeof name.sun_path - 1);
  int probe = ::socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (probe < 0) return true;
  auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + address.size());
  bool refused = ::connect(probe, reinterpret_cast<const sockaddr*>(&name), length) != 0 &&
                 errno == ECONNREFUSED;
  ::close(probe);
  return !refused;
}

}  // namespace

Network::Network(std::function<void(MessagePtr)> arrived)
    : zmq_(zeromq()), arrived_(std::move(arrived)), pid_(getpid()), address_(new_address()) {
  partners_.push_back({.address = address_});
  library_ = zmq_.ctx_new();
  listening_ = zmq_.socket(library_, ZMQ_PULL);
  int unlimited = 0, backlog = 4096;
  zmq_.setsockopt(listening_, ZMQ_RCVHWM, &unlimited, sizeof unlimited);
  zmq_.setsockopt(listening_, ZMQ_BACKLOG, &backlog, sizeof backlog);
  if (zmq_.bind(listening_, ("ipc://@" + address_).c_str()) != 0)
    fail(ncclSystemError, "no socket to listen on: {}", zmq_.strerror(zmq_.error()));
  receiving_ = std::thread(&Network::receive, this);
  static Network* instance = this;
  std::atexit([] { instance->close(); });
}

int Network::number_of(const std::string& address) {
  for (std::size_t i = 0; i < partners_.size(); ++i) {
    if (partners_[i].address == address) return static_cast<int>(i);
  }
  partners_.push_back({.address = address});
  return static_cast<int>(partners_.size()) - 1;
}

std::string Network::name_of(int process) const {
  std::lock_guard lock(mutex_);
  const std::string& address = partners_.at(static_cast<std::size_t>(process)).address;
  return "process " +
         address.substr(address.find('-') + 1, address.rfind('-') - address.find('-') - 1);
}

int Network::greet(const Header& hello, const ncclUniqueId& id) {
  std::string creator(id.internal + address_at, strnlen(id.internal + address_at, address_size));
  if (creator.empty()) {
    fail(ncclInvalidUsage,
         "the unique id tells no address: its creator has no ZeroMQ (package libzmq5), or runs "
         "with TIDEMARK_NCCL_ALONE=1");
  }
  Header greeting = hello;
  greeting.kind = Kind::greeting;
  greeting.bytes = address_.size();
  std::lock_guard lock(mutex_);
  if (creator == address_) {
    introduce(greeting, address_);
    return here;
  }
  const int process = number_of(creator);
  send_locked(process, greeting, Payload::copy_of(address_.data(), address_.size()));
  return process;
}

// The creator's part: the new rank hears of all, and all hear of it.
void Network::introduce(const Header& greeting, const std::string& address) {
  auto& earlier = greetings_[greeting.comm];
  earlier.emplace_back(greeting, address);
  const auto tell = [this](const std::string& whom, const auto& of) {
    Header hello = of.first;
    hello.kind = Kind::hello;
    hello.process = number_of(of.second);  // here; the receiver has a number of its own
    send_locked(number_of(whom), hello, Payload::copy_of(of.second.data(), of.second.size()));
  };
  for (const auto& other : earlier) tell(address, other);
  for (const auto& other : earlier) {
    if (&other != &earlier.back()) tell(other.second, earlier.back());
  }
}

void Network::send(int process, const Header& header, const Payload& payload) {
  std::lock_guard lock(mutex_);
  send_locked(process, header, payload);
}

void Network::send_locked(int process, const Header& header, const Payload& payload) {
  if (closed_) return;
  if (getpid() != pid_) {
    fail(ncclInvalidUsage,
         "process {} was forked from process {} after its first NCCL call and cannot use NCCL: "
         "start it with another start method (spawn)",
         getpid(), pid_);
  }
  if (process == here) {
    arrived_(std::make_shared<Message>(Message{header, payload, -1}));
    return;
  }
  Partner& partner = partners_.at(static_cast<std::size_t>(process));
  if (partner.socket == nullptr) {
    partner.socket = zmq_.socket(library_, ZMQ_PUSH);
    int unlimited = 0;
    zmq_.setsockopt(partner.socket, ZMQ_SNDHWM, &unlimited, sizeof unlimited);
    if (zmq_.connect(partner.socket, ("ipc://@" + partner.address).c_str()) != 0)
      fail(ncclSystemError, "no connection to another rank: {}", zmq_.strerror(zmq_.error()));
  }
  const auto push = [&](Payload bytes, int flags) {
    auto* kept = new Payload(std::move(bytes));
    zmq_msg_t frame;
    zmq_.msg_init_data(
        &frame, kept->data.get(), kept->size,
        [](void*, void* hint) { delete static_cast<Payload*>(hint); }, kept);
    if (zmq_.msg_send(&frame, partner.socket, flags) >= 0) return;
    int error = zmq_.error();
    zmq_.msg_close(&frame);
    fail(ncclSystemError, "a message to another rank cannot be sent: {}", zmq_.strerror(error));
  };
  push(Payload::copy_of(&header, sizeof header), payload.size > 0 ? ZMQ_SNDMORE : 0);
  if (payload.size > 0) push(payload, 0);
}

bool Network::has_ended(int process) {
  std::lock_guard lock(mutex_);
  if (process == here) return false;
  Partner& partner = partners_.at(static_cast<std::size_t>(process));
  Clock::time_point now = Clock::now();
  if (partner.ended != Clock::time_point{}) return now - partner.ended > grace;
  if (now - partner.probed < probe_interval) return false;
  partner.probed = now;
  if (!listens(partner.address)) partner.ended = now;
  return false;
}

// One message: its header, and in a second frame its payload. Null: the network is closed.
MessagePtr Network::receive_one() {
  for (;;) {
    std::vector<std::shared_ptr<zmq_msg_t>> frames;
    do {
      const auto& frame = frames.emplace_back(new zmq_msg_t, [this](zmq_msg_t* old) {
        zmq_.msg_close(old);
        delete old;
      });
      zmq_.msg_init(frame.get());
      while (zmq_.msg_recv(frame.get(), listening_, 0) < 0) {
        if (zmq_.error() != EINTR) return nullptr;
      }
    } while (zmq_.msg_more(frames.back().get()) != 0);
    if (frames.size() > 2 || zmq_.msg_size(frames[0].get()) != sizeof(Header)) continue;
    auto message = std::make_shared<Message>();
    std::memcpy(&message->header, zmq_.msg_data(frames[0].get()), sizeof(Header));
    std::size_t size = frames.size() > 1 ? zmq_.msg_size(frames[1].get()) : 0;
    if (size != message->header.bytes) continue;
    if (size > 0) {
      auto* bytes = static_cast<std::byte*>(zmq_.msg_data(frames[1].get()));
      message->payload = {{bytes, [frame = frames[1]](std::byte*) {}}, size};
    }
    return message;
  }
}

void Network::receive() {
  while (MessagePtr message = receive_one()) {
    Header& header = message->header;
    if (header.kind == Kind::hello || header.kind == Kind::greeting) {
      std::lock_guard lock(mutex_);
      std::string address(reinterpret_cast<const char*>(message->payload.data.get()),
                          message->payload.size);
      header.process = number_of(address);
      try {
        if (header.kind == Kind::greeting) introduce(header, address);
      } catch (const Failure& failure) {
        remember_error(failure.what());
      }
    }
    if (header.kind != Kind::greeting) arrived_(std::move(message));
  }
  zmq_.close(listening_);
}

// Lets living partners have what is still leaving.
void Network::close() {
  if (getpid() != pid_) return;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    for (Partner& partner : partners_) {
      if (partner.socket == nullptr) continue;
      int linger = listens(partner.address) ? linger_ms : 0;
      zmq_.setsockopt(partner.socket, ZMQ_LINGER, &linger, sizeof linger);
      zmq_.close(partner.socket);
    }
  }
  zmq_.ctx_shutdown(library_);
  receiving_.join();
  zmq_.ctx_term(library_);
}

}  // namespace tidemark::nccl
