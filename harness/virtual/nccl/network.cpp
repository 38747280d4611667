#include "harness/virtual/nccl/network.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "harness/virtual/nccl/failure.h"
#include "harness/virtual/nccl/unique_id.h"

namespace tidemark::nccl {
namespace {

constexpr int linger_ms = 10000;  // at exit, for what a living partner has not yet read
constexpr auto last_question = std::chrono::seconds(1);  // for the answers of hosts at exit

// The payload of a greeting and a hello: an address, which every version has there, and a text.
Payload introduction_of(const Address& address, const std::string& text) {
  Payload payload = Payload::allocate(sizeof address + text.size());
  std::memcpy(payload.data.get(), &address, sizeof address);
  std::memcpy(payload.data.get() + sizeof address, text.data(), text.size());
  return payload;
}

Address address_in(const Payload& introduction) {
  Address address;
  std::memcpy(&address, introduction.data.get(), sizeof address);
  return address;
}

// Word that a greeting shows to the creator of the id. The local socket has no key, and another
// user of the host shall not make this process connect anywhere.
std::int64_t word_of(const Address& creator) {
  std::int64_t word = 0;
  std::memcpy(&word, creator.key.data(), sizeof word);
  return word;
}

std::string_view text_of(const Version& version) {
  return {version.data(), strnlen(version.data(), version.size())};
}

}  // namespace

std::string text_of(const Message& hello) {
  const auto* from = reinterpret_cast<const char*>(hello.payload.data.get());
  return {from + sizeof(Address), hello.payload.size - sizeof(Address)};
}

Network::Network(std::function<void(MessagePtr)> arrived, const Address& own)
    : arrived_(std::move(arrived)), own_(own), sockets_(own_) {
  partners_.emplace_back().address = own_;
  receiving_ = std::thread(&Network::receive, this);
}

int Network::number_of(const Address& address) {
  for (std::size_t i = 0; i < partners_.size(); ++i) {
    if (partners_[i].address == address) return static_cast<int>(i);
  }
  partners_.emplace_back().address = address;
  return static_cast<int>(partners_.size()) - 1;
}

std::string Network::name_of(int process, int seen_from) const {
  std::lock_guard lock(mutex_);
  return text_of(partner(process).address, partner(seen_from).address);
}

std::string Network::place_of(int process) const {
  std::lock_guard lock(mutex_);
  const Address& address = partner(process).address;
  std::string text = text_of(address, Address());
  if (address.lack != Lack::nothing)
    text += fmt::format(", which ranks of other hosts do not reach: {} {}", host_of(address),
                        text_of(address.lack));
  return text;
}

int Network::greet(const Header& hello, const std::string& text, const ncclUniqueId& id) {
  const UniqueId unique = parts_of(id);
  if (unique.creator == Address()) {
    fail(ncclInvalidUsage,
         "the unique id tells no address: its creator has no ZeroMQ (package libzmq5), or runs "
         "with TIDEMARK_NCCL_ALONE=1");
  }
  const Payload introduction = introduction_of(own_, text);
  Header greeting = hello;
  greeting.kind = Kind::greeting;
  greeting.words[1] = word_of(unique.creator);
  greeting.bytes = introduction.size;
  std::lock_guard lock(mutex_);
  if (unique.creator == own_) {
    introduce(greeting, introduction);
    return here;
  }
  const int process = number_of(unique.creator);
  // If the ranks cannot meet, this tells the creator so.
  send_locked(process, greeting, introduction);
  if (const std::string why = obstacle(own_, unique.creator); !why.empty())
    fail(ncclSystemError, "{}", why);
  if (unique.version != this_version) {
    fail(ncclInvalidUsage,
         "{}, which made the unique id, has version {} of tidemark's NCCL, and {} has {}: the "
         "ranks of a job need the same",
         text_of(unique.creator, own_), text_of(unique.version), text_of(own_, unique.creator),
         text_of(this_version));
  }
  return process;
}

// The creator's part: the new rank hears of all, and all hear of it. Some may be out of reach.
void Network::introduce(const Header& greeting, const Payload& introduction) {
  auto& earlier = greetings_[greeting.comm];
  earlier.emplace_back(greeting, introduction);
  const auto tell = [this](const Payload& whom, const auto& of) {
    if (!obstacle(own_, address_in(whom)).empty()) return;
    Header hello = of.first;
    hello.kind = Kind::hello;
    hello.process = number_of(address_in(of.second));  // here; the receiver has its own number
    send_locked(number_of(address_in(whom)), hello, of.second);
  };
  for (const auto& other : earlier) tell(introduction, other);
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
  if (getpid() != own_.pid) {
    fail(ncclInvalidUsage,
         "process {} was forked from process {} after its first NCCL call and cannot use NCCL: "
         "start it with another start method (spawn)",
         getpid(), own_.pid);
  }
  if (process == here) {
    arrived_(std::make_shared<Message>(Message{header, payload, -1}));
    return;
  }
  Partner& to = partners_.at(static_cast<std::size_t>(process));
  if (to.socket == nullptr) to.socket = sockets_.connect(own_, to.address);
  sockets_.send(to.socket, header, payload);
}

std::string Network::loss(int process, const std::string& role) {
  std::lock_guard lock(mutex_);
  if (process == here) return "";
  Partner& lost = partners_.at(static_cast<std::size_t>(process));
  const std::string why = lost.liveness.loss(own_, lost.address);
  return why.empty() ? "" : fmt::format("{}, {}, {}", text_of(lost.address, own_), role, why);
}

std::string Network::obstacle_to(int process) const {
  std::lock_guard lock(mutex_);
  return obstacle(own_, partner(process).address);
}

std::string Network::other_version(const CommId& comm) const {
  std::lock_guard lock(mutex_);
  const auto place = other_versions_.find(comm);
  return place == other_versions_.end() ? "" : place->second;
}

void Network::receive() {
  while (MessagePtr message = sockets_.receive()) {
    const Header& header = message->header;
    const bool introduces = header.version != this_version || header.kind == Kind::hello ||
                            header.kind == Kind::greeting;
    if (!introduces || take_introduction(*message)) arrived_(std::move(message));
  }
}

// True if the message is one for this process's ranks: a hello.
bool Network::take_introduction(Message& message) {
  Header& header = message.header;
  if (message.payload.size < sizeof(Address)) return false;  // a stranger's
  std::lock_guard lock(mutex_);
  const Address address = address_in(message.payload);
  if (header.version != this_version) {
    other_versions_[header.comm] = fmt::format(
        "{} has version {} of tidemark's NCCL, and {} has {}: the ranks of a job need the same",
        text_of(address, own_), text_of(header.version), text_of(own_, address),
        text_of(this_version));
    return false;
  }
  const bool greets = header.kind == Kind::greeting;
  if (greets && header.words[1] != word_of(own_)) return false;  // a stranger's
  header.process = number_of(address);
  if (!greets) return true;
  try {
    introduce(header, message.payload);
  } catch (const Failure& failure) {
    remember_error(failure.what(), Moment::afterwards);
  }
  return false;
}

void Network::close() {
  if (getpid() != own_.pid) return;
  {
    std::lock_guard lock(mutex_);
    if (std::exchange(closed_, true)) return;
    for (Partner& each : partners_) {
      if (each.socket != nullptr) each.liveness.ask(own_, each.address);
    }
    const auto end = std::chrono::steady_clock::now() + last_question;
    for (Partner& each : partners_) {
      if (each.socket == nullptr) continue;
      Liveness::Answer answer;
      while ((answer = each.liveness.ask(own_, each.address)) == Liveness::Answer::none &&
             std::chrono::steady_clock::now() < end)
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
      sockets_.close(each.socket, answer == Liveness::Answer::listens ? linger_ms : 0);
    }
  }
  sockets_.end([this] { receiving_.join(); });
}

}  // namespace tidemark::nccl
