// Processes of two hosts: here networks of one process, which meet over TCP on the loopback
// interface because they say that they are on different hosts.
#include "harness/virtual/nccl/network.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <unistd.h>
#include <zmq.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <random>
#include <thread>
#include <vector>

#include "harness/virtual/nccl/failure.h"
#include "harness/virtual/nccl/unique_id.h"

namespace tidemark::nccl {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::StartsWith;

Address on_loopback(const char* host) {
  Address address = own_address();
  std::fill(address.name.begin(), address.name.end(), '\0');
  std::string_view(host).copy(address.name.data(), address.name.size());
  address.host = std::hash<std::string_view>()(host);
  address.family = 4;
  address.ip = {127, 0, 0, 1};
  address.lack = Lack::nothing;
  return address;
}

template <class Condition>
bool within(double seconds, Condition condition) {
  const auto end = std::chrono::steady_clock::now() + std::chrono::duration<double>(seconds);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return true;
}

struct Host {
  explicit Host(const Address& address)
      : network(
            [this](MessagePtr message) {
              std::lock_guard lock(mutex);
              arrived.push_back(std::move(message));
            },
            address) {}
  explicit Host(const char* name) : Host(on_loopback(name)) {}
  ~Host() { network.close(); }

  bool has(std::size_t messages, double seconds = 20) {
    return within(seconds, [&] {
      std::lock_guard lock(mutex);
      return arrived.size() >= messages;
    });
  }
  /// The number of the process of `creator`, to whom this one has greeted as `rank`.
  int greet(const Host& creator, int rank = 1, const Version& version = this_version) {
    const UniqueId id{
        {'t', 'i', 'd', 'e', 'm', 'a', 'r', 'k'}, version, {}, creator.network.address()};
    Header hello{.version = version, .comm = {3, 4}, .kind = Kind::hello, .source = rank};
    return network.greet(hello, "its clock", std::bit_cast<ncclUniqueId>(id));
  }

  std::mutex mutex;
  std::vector<MessagePtr> arrived;
  Network network;
};

std::string loss_of(Network& network, int process, double seconds) {
  std::string loss;
  within(seconds, [&] { return !(loss = network.loss(process, "which has rank 1")).empty(); });
  return loss;
}

const Header header{.comm = {1, 2}, .kind = Kind::message, .bytes = 3};
const Payload payload = Payload::copy_of("abc", 3);

// holds: harness/exec/README.md, Several hosts
TEST(Network, ProcessesOfTwoHostsMeetOverTcp) {
  Host a("a"), b("b"), c("c");
  EXPECT_NE(a.network.address().port, 0);
  EXPECT_NE(a.network.address().key, b.network.address().key);
  const int from_b = b.greet(a), from_c = c.greet(a, 2);
  ASSERT_TRUE(b.has(2) && c.has(2)) << "each hears of both";
  EXPECT_EQ(text_of(*b.arrived[0]), "its clock");
  EXPECT_TRUE(a.arrived.empty()) << "the creator is no rank";
  b.network.send(from_b, header, payload);
  c.network.send(from_c, header, payload);
  const int c_from_b = std::max(b.arrived[0]->header.process, b.arrived[1]->header.process);
  EXPECT_THAT(b.network.name_of(c_from_b),
              AllOf(StartsWith("process "), HasSubstr(" of host c (127.0.0.1 port ")));
  b.network.send(c_from_b, header, payload);
  ASSERT_TRUE(a.has(2) && c.has(3));
  EXPECT_EQ(c.arrived[2]->payload.size, 3U);
  EXPECT_EQ(c.arrived[2]->header.comm, header.comm);
}

TEST(Network, HostsMeetOverIPv6) {
  Address six = on_loopback("a");
  six.family = 6;
  six.ip = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1};
  Host a(six);
  if (a.network.address().lack == Lack::port) GTEST_SKIP() << "this machine has no IPv6";
  Address other = on_loopback("b");
  other.family = 6;
  other.ip = six.ip;
  Host b(other), four("c");
  const int process = b.greet(a);
  ASSERT_TRUE(b.has(1));
  EXPECT_THAT(b.network.name_of(process), HasSubstr(" of host a (::1 port "));
  EXPECT_EQ(loss_of(b.network, process, 1.5), "");
  try {
    four.greet(a);
    ADD_FAILURE() << "no error";
  } catch (const Failure& failure) {
    EXPECT_STREQ(failure.what(),
                 "host c (127.0.0.1) has IPv4 and host a (::1) IPv6: set NCCL_SOCKET_FAMILY");
  }
}

// --- Who may speak.

struct Stranger {
  void* library = zmq_ctx_new();
  void* socket = zmq_socket(library, ZMQ_PUSH);
  char public_key[41] = {}, secret_key[41] = {};

  Stranger() {
    int none = 0;
    zmq_setsockopt(socket, ZMQ_LINGER, &none, sizeof none);
    zmq_curve_keypair(public_key, secret_key);
  }
  ~Stranger() {
    zmq_close(socket);
    zmq_ctx_term(library);
  }
  void know(const void* server_key, std::size_t size) {
    zmq_setsockopt(socket, ZMQ_CURVE_SERVERKEY, server_key, size);
    zmq_setsockopt(socket, ZMQ_CURVE_PUBLICKEY, public_key, 40);
    zmq_setsockopt(socket, ZMQ_CURVE_SECRETKEY, secret_key, 40);
  }
  void speak(const Address& to) {
    zmq_connect(socket, ("tcp://127.0.0.1:" + std::to_string(to.port)).c_str());
    zmq_send(socket, &header, sizeof header, ZMQ_SNDMORE | ZMQ_DONTWAIT);
    zmq_send(socket, "abc", 3, ZMQ_DONTWAIT);
  }
};

TEST(Network, OverTcpOnlyWhoHasTheKeyMaySpeak) {
  Host host("a");
  const Address& address = host.network.address();
  Stranger null, another, itself, plain, knowing;
  null.speak(address);
  char key[41] = {}, secret[41] = {};
  zmq_curve_keypair(key, secret);
  another.know(key, 40);
  another.speak(address);
  itself.know(itself.public_key, 40);
  itself.speak(address);
  zmq_setsockopt(plain.socket, ZMQ_PLAIN_USERNAME, "user", 4);
  zmq_setsockopt(plain.socket, ZMQ_PLAIN_PASSWORD, "word", 4);
  plain.speak(address);
  EXPECT_FALSE(host.has(1, 1.5));
  knowing.know(address.key.data(), address.key.size());
  knowing.speak(address);
  ASSERT_TRUE(host.has(1));
  EXPECT_FALSE(host.has(2, 0.5));
}

TEST(Network, RandomBytesOverTcpAreDropped) {
  Host host("a");
  const SocketName name = socket_name(host.network.address(), false);
  std::mt19937_64 random(5);
  constexpr char greeting[] =
      "\xff\0\0\0\0\0\0\0\x01\x7f\x03\x01"
      "CURVE";  // ZMTP's beginning
  for (int i = 0; i < 200; ++i) {
    const int socket = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    ASSERT_EQ(::connect(socket, reinterpret_cast<const sockaddr*>(&name.storage), name.length), 0);
    std::vector<std::uint64_t> bytes(random() % 300);
    for (std::uint64_t& each : bytes) each = random();
    if (i % 2 == 1) EXPECT_GT(::send(socket, greeting, sizeof greeting - 1, MSG_NOSIGNAL), 0);
    ::send(socket, bytes.data(), bytes.size() * sizeof bytes[0], MSG_NOSIGNAL);
    ::close(socket);
  }
  EXPECT_FALSE(host.has(1, 0.5));
  Host other("b");
  EXPECT_NO_THROW(other.network.send(other.greet(host), header, payload));
  EXPECT_TRUE(host.has(1));
}

// The local socket has no key: strangers of the host may write to it.
TEST(Network, MessagesThatAreTooShortAreDropped) {
  Host host("a");
  Stranger local;
  zmq_connect(local.socket, ("ipc://@" + local_name(host.network.address())).c_str());
  for (std::size_t size = 0; size < sizeof(Header); size += 8) {
    Header hello{.kind = Kind::hello, .bytes = 3};
    zmq_send(local.socket, &hello, size, ZMQ_SNDMORE);
    zmq_send(local.socket, "abc", 3, 0);
    zmq_send(local.socket, &hello, sizeof hello, 0);
  }
  zmq_send(local.socket, &header, sizeof header, ZMQ_SNDMORE);
  zmq_send(local.socket, "abc", 3, 0);
  ASSERT_TRUE(host.has(1));
  EXPECT_EQ(host.arrived[0]->header.kind, Kind::message);
}

// Only who knows the id makes a process connect to others.
TEST(Network, GreetingsOfStrangersOfTheHostAreDropped) {
  Host host("a"), other("b");
  Stranger local;
  zmq_connect(local.socket, ("ipc://@" + local_name(host.network.address())).c_str());
  const Address& address = other.network.address();
  const Header greeting{.comm = {3, 4}, .kind = Kind::greeting, .bytes = sizeof address};
  zmq_send(local.socket, &greeting, sizeof greeting, ZMQ_SNDMORE);
  zmq_send(local.socket, &address, sizeof address, 0);
  EXPECT_FALSE(other.has(1, 0.5));
  other.greet(host);
  EXPECT_TRUE(other.has(1));
}

// --- Partners that are lost.

TEST(Network, AProcessThatWasReachedHasEnded) {
  Host a("a");
  auto b = std::make_unique<Host>("b");
  const int process = a.greet(*b);
  ASSERT_TRUE(a.has(1));
  EXPECT_EQ(loss_of(a.network, process, 1.5), "");
  b.reset();
  EXPECT_THAT(loss_of(a.network, process, 20),
              AllOf(HasSubstr(" of host b (127.0.0.1 port "),
                    ::testing::EndsWith("), which has rank 1, has ended")));
}

TEST(Network, AProcessThatWasNotReachedHasEndedOrIsRefused) {
  Host a("a");
  auto b = std::make_unique<Host>("b");
  const int process = a.greet(*b);
  b.reset();
  EXPECT_THAT(loss_of(a.network, process, 20),
              HasSubstr("has ended, or a firewall refuses connections from host a (127.0.0.1)"));
}

// A queue of connections that is full drops what comes, as a cut cable does.
TEST(Network, AHostThatDoesNotAnswerIsLost) {
  setenv("TIDEMARK_TIMEOUT", "2", 1);
  Host a("a"), b("b");
  const int full = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  Address address = on_loopback("c");
  SocketName name = socket_name(address, false);
  ASSERT_EQ(::bind(full, reinterpret_cast<const sockaddr*>(&name.storage), name.length), 0);
  ASSERT_EQ(::listen(full, 0), 0);
  ASSERT_EQ(::getsockname(full, reinterpret_cast<sockaddr*>(&name.storage), &name.length), 0);
  for (int i = 0; i < 4; ++i) {
    const int filling = ::socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    ::connect(filling, reinterpret_cast<const sockaddr*>(&name.storage), name.length);
  }
  address.port = ntohs(reinterpret_cast<const sockaddr_in*>(&name.storage)->sin_port);
  const UniqueId id{{}, this_version, {}, address};
  const int process = a.network.greet({.comm = {3, 4}}, "", std::bit_cast<ncclUniqueId>(id));
  EXPECT_EQ(a.network.loss(process, ""), "");
  std::this_thread::sleep_for(std::chrono::milliseconds(1200));
  EXPECT_EQ(a.network.loss(process, ""), "") << "nobody has waited meanwhile";
  EXPECT_THAT(loss_of(a.network, process, 20),
              AllOf(HasSubstr("of host c (127.0.0.1 port "),
                    HasSubstr(", which has rank 1, has not answered host a (127.0.0.1) for 1 s"),
                    HasSubstr("NCCL_SOCKET_IFNAME")));
  ::close(full);
  unsetenv("TIDEMARK_TIMEOUT");
}

TEST(Network, TheHostThatLacksTcpIsNamed) {
  Address without = on_loopback("b");
  without.lack = Lack::named;
  without.family = 0;
  Host a("a"), b(without);
  ++without.random;
  Host beside(without);
  for (const auto& [one, other] : {std::pair{&a, &b}, {&b, &a}}) {
    try {
      one->greet(*other);
      ADD_FAILURE() << "no error";
    } catch (const Failure& failure) {
      EXPECT_STREQ(failure.what(),
                   "host b has no network interface that its NCCL_SOCKET_IFNAME or "
                   "NCCL_SOCKET_FAMILY permits, and host a (127.0.0.1) is another host");
    }
  }
  a.greet(a, 0);
  EXPECT_ANY_THROW(b.greet(a, 1));
  ASSERT_TRUE(a.has(2)) << "the creator hears of the rank that it cannot reach";
  EXPECT_THAT(a.network.obstacle_to(a.arrived[1]->header.process), StartsWith("host b has no "));
  beside.greet(b);  // the same host
  EXPECT_TRUE(beside.has(1));
}

// --- Other versions.

TEST(Network, OtherVersionsAreNamedOnBothSides) {
  Host a("a"), b("b");
  Version other{'9', '.', '9'};
  try {
    b.greet(a, 1, other);  // the id is of version 9.9, and so is what b says
    ADD_FAILURE() << "no error";
  } catch (const Failure& failure) {
    EXPECT_THAT(failure.what(), AllOf(HasSubstr("of host a (127.0.0.1 port "),
                                      HasSubstr("which made the unique id, has version 9.9 of "),
                                      HasSubstr(" of host b (127.0.0.1 port ")));
  }
  EXPECT_TRUE(within(20, [&] { return !a.network.other_version({3, 4}).empty(); }));
  EXPECT_THAT(a.network.other_version({3, 4}),
              AllOf(HasSubstr("of host b (127.0.0.1 port "), HasSubstr("has version 9.9"),
                    HasSubstr("of host a (127.0.0.1 port ")));
  EXPECT_EQ(a.network.other_version({3, 5}), "") << "a greeting for another communicator";
  EXPECT_TRUE(a.arrived.empty());
}

}  // namespace
}  // namespace tidemark::nccl
