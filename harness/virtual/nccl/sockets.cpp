#include "harness/virtual/nccl/sockets.h"

#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "harness/virtual/nccl/failure.h"
#include "harness/virtual/nccl/zeromq.h"

namespace tidemark::nccl {
namespace {

// A frame's bytes until ZeroMQ's thread has sent them. ThreadSanitizer sees by `given` how it gets
// them: ZeroMQ is not compiled with it.
struct Leaving {
  Payload bytes;
  std::atomic<bool> given{false};
};

void release(void*, void* hint) {
  auto* leaving = static_cast<Leaving*>(hint);
  if (leaving->given.load(std::memory_order_acquire)) delete leaving;
}

std::string local_endpoint(const Address& address) { return "ipc://@" + local_name(address); }

std::string tcp_endpoint(const Address& address, const std::string& port) {
  const std::string ip = ip_of(address);
  return "tcp://" + (address.family == 6 ? "[" + ip + "]" : ip) + ":" + port;
}

}  // namespace

Sockets::Sockets(Address& own) : zmq_(zeromq()) {
  library_ = zmq_.ctx_new();
  listening_ = zmq_.socket(library_, ZMQ_PULL);
  set(listening_, ZMQ_RCVHWM, 0);  // no limit
  set(listening_, ZMQ_BACKLOG, 4096);
  // Options hold for what is bound after they are set (zmq_setsockopt(3)).
  const uid_t user = geteuid();
  if (zmq_.setsockopt(listening_, ZMQ_IPC_FILTER_UID, &user, sizeof user) != 0)
    fail(ncclSystemError,
         "this libzmq does not tell who connects to a rank's socket, so that every user could: "
         "install the package libzmq5, or pyzmq");
  if (zmq_.bind(listening_, local_endpoint(own).c_str()) != 0)
    fail(ncclSystemError, "no socket to listen on: {}", zmq_.strerror(zmq_.error()));
  const bool encrypts =
      zmq_.has("curve") == 1 && zmq_.curve_keypair(public_.data(), secret_.data()) == 0;
  if (encrypts) zmq_.z85_decode(own.key.data(), public_.data());
  if (own.lack == Lack::nothing && !encrypts) own.lack = Lack::curve;
  if (own.lack == Lack::nothing) listen_to_network(own);
}

void Sockets::set(void* socket, int option, int value) {
  if (zmq_.setsockopt(socket, option, &value, sizeof value) != 0)
    fail(ncclSystemError, "ZeroMQ's option {}: {}", option, zmq_.strerror(zmq_.error()));
}

void Sockets::listen_to_network(Address& own) {
  set(listening_, ZMQ_CURVE_SERVER, 1);
  if (zmq_.setsockopt(listening_, ZMQ_CURVE_SECRETKEY, secret_.data(), secret_.size()) != 0)
    fail(ncclSystemError, "ZeroMQ takes no key: {}", zmq_.strerror(zmq_.error()));
  if (own.family == 6) set(listening_, ZMQ_IPV6, 1);
  std::array<char, 128> bound{};
  std::size_t size = bound.size();
  if (zmq_.bind(listening_, tcp_endpoint(own, "*").c_str()) != 0 ||
      zmq_.getsockopt(listening_, ZMQ_LAST_ENDPOINT, bound.data(), &size) != 0) {
    own.lack = Lack::port;
    return;
  }
  own.port = static_cast<std::uint16_t>(std::atoi(std::strrchr(bound.data(), ':') + 1));
}

void* Sockets::connect(const Address& own, const Address& partner) {
  if (own.host != partner.host && (partner.port == 0 || secret_[0] == 0))
    fail(ncclSystemError, "{}", obstacle(own, partner));
  void* socket = zmq_.socket(library_, ZMQ_PUSH);
  if (socket == nullptr) fail(ncclSystemError, "no socket: {}", zmq_.strerror(zmq_.error()));
  set(socket, ZMQ_SNDHWM, 0);
  std::string endpoint = local_endpoint(partner);
  if (own.host != partner.host) {
    endpoint = tcp_endpoint(partner, std::to_string(partner.port));
    if (partner.family == 6) set(socket, ZMQ_IPV6, 1);
    if (zmq_.setsockopt(socket, ZMQ_CURVE_SERVERKEY, partner.key.data(), partner.key.size()) != 0 ||
        zmq_.setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public_.data(), public_.size()) != 0 ||
        zmq_.setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret_.data(), secret_.size()) != 0)
      fail(ncclSystemError, "ZeroMQ takes no key: {}", zmq_.strerror(zmq_.error()));
  }
  if (zmq_.connect(socket, endpoint.c_str()) != 0)
    fail(ncclSystemError, "no connection to another rank: {}", zmq_.strerror(zmq_.error()));
  return socket;
}

// In two frames: the header, and the payload where there is one.
void Sockets::send(void* socket, const Header& header, const Payload& payload) {
  const auto push = [&](Payload bytes, int flags) {
    auto* leaving = new Leaving{std::move(bytes)};
    zmq_msg_t frame;
    zmq_.msg_init_data(&frame, leaving->bytes.data.get(), leaving->bytes.size, release, leaving);
    leaving->given.store(true, std::memory_order_release);
    if (zmq_.msg_send(&frame, socket, flags) >= 0) return;
    const int error = zmq_.error();
    zmq_.msg_close(&frame);
    fail(ncclSystemError, "a message to another rank cannot be sent: {}", zmq_.strerror(error));
  };
  push(Payload::copy_of(&header, sizeof header), payload.size > 0 ? ZMQ_SNDMORE : 0);
  if (payload.size > 0) push(payload, 0);
}

void Sockets::close(void* socket, int linger_ms) {
  set(socket, ZMQ_LINGER, linger_ms);
  zmq_.close(socket);
}

std::shared_ptr<zmq_msg_t> Sockets::receive_frame() {
  std::shared_ptr<zmq_msg_t> frame(new zmq_msg_t, [this](zmq_msg_t* old) {
    zmq_.msg_close(old);
    delete old;
  });
  zmq_.msg_init(frame.get());
  while (zmq_.msg_recv(frame.get(), listening_, 0) < 0) {
    if (zmq_.error() != EINTR) return nullptr;
  }
  return frame;
}

MessagePtr Sockets::receive() {
  for (;;) {
    std::vector<std::shared_ptr<zmq_msg_t>> frames;
    bool more = true, stranger = false;
    while (more) {
      auto frame = receive_frame();
      if (!frame) return nullptr;
      more = zmq_.msg_more(frame.get()) != 0;
      if (frames.size() < 2)
        frames.push_back(std::move(frame));
      else
        stranger = true;  // none of ours has a third part: it is freed as it comes
    }
    auto message = std::make_shared<Message>();
    Header& header = message->header;
    const std::size_t head = zmq_.msg_size(frames[0].get());
    if (stranger || head < Header::stable_size) continue;  // a stranger's
    std::memcpy(&header, zmq_.msg_data(frames[0].get()), std::min(head, sizeof header));
    const std::size_t size = frames.size() > 1 ? zmq_.msg_size(frames[1].get()) : 0;
    if (header.version == this_version && (head != sizeof header || size != header.bytes)) continue;
    if (size > 0) {
      auto* bytes = static_cast<std::byte*>(zmq_.msg_data(frames[1].get()));
      message->payload = {{bytes, [frame = frames[1]](std::byte*) {}}, size};
    }
    return message;
  }
}

void Sockets::end(const std::function<void()>& join) {
  zmq_.ctx_shutdown(library_);
  join();
  zmq_.close(listening_);
  zmq_.ctx_term(library_);
}

}  // namespace tidemark::nccl
