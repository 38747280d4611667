#include "harness/virtual/nccl/message_queue.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <thread>

namespace tidemark::nccl {
namespace {

constexpr int head_tag = 0x7d6b0001, body_tag = 0x7d6b0002;  // Open MPI allows tags up to 2^31 - 1
constexpr std::size_t inline_limit = 3584;  // with its header within a shared-memory eager message
constexpr std::size_t chunk_limit = std::size_t{1} << 30;  // MPI counts are ints

bool finished(std::vector<MPI_Request>& requests) {
  int flag = 0;
  MPI_Testall(static_cast<int>(requests.size()), requests.data(), &flag, MPI_STATUSES_IGNORE);
  return flag != 0;
}

int before_finalize(MPI_Comm, int, void*, void*) {
  MessageQueue::of_process().close();
  return MPI_SUCCESS;
}

}  // namespace

MessageQueue& MessageQueue::of_process() {
  static auto* queue = new MessageQueue;  // outlives every thread
  return *queue;
}

void MessageQueue::connect(const MpiWorld& world) {
  std::lock_guard lock(mutex_);
  if (connected_ || world.size == 1) return;
  world_ = world;
  connected_ = true;
  // MPI_Finalize deletes MPI_COMM_SELF's attributes first: the standard's way to hear of it.
  int key = MPI_KEYVAL_INVALID;
  MPI_Comm_create_keyval(MPI_COMM_NULL_COPY_FN, before_finalize, &key, nullptr);
  MPI_Comm_set_attr(MPI_COMM_SELF, key, nullptr);
}

MpiWorld MessageQueue::world() const {
  std::lock_guard lock(mutex_);
  return world_;
}

void MessageQueue::close() {
  std::lock_guard lock(mutex_);
  closed_ = true;
}

void MessageQueue::send(int process, const Header& header, const Payload& payload) {
  std::lock_guard lock(mutex_);
  Header stamped = header;
  stamped.process = world_.rank;
  stamped.bytes = payload.size;
  if (process == here || process == world_.rank) {
    file(std::make_shared<Message>(Message{stamped, payload, true, -1}));
  } else if (connected_ && !closed_) {
    post(process, stamped, payload);
  }
}

// Header and payload of a message go out under the lock: the receiver matches bodies to headers by
// their order.
void MessageQueue::post(int process, const Header& header, const Payload& payload) {
  bool inlined = payload.size <= inline_limit;
  Leaving& message = leaving_.emplace_back();
  message.head.resize(sizeof header + (inlined ? payload.size : 0));
  std::memcpy(message.head.data(), &header, sizeof header);
  if (inlined && payload.size > 0)
    std::memcpy(message.head.data() + sizeof header, payload.data.get(), payload.size);
  MPI_Isend(message.head.data(), static_cast<int>(message.head.size()), MPI_BYTE, process, head_tag,
            MPI_COMM_WORLD, &message.requests.emplace_back());
  if (!inlined) {
    message.payload = payload;
    for (std::size_t at = 0; at < payload.size; at += chunk_limit) {
      MPI_Isend(payload.data.get() + at, static_cast<int>(std::min(chunk_limit, payload.size - at)),
                MPI_BYTE, process, body_tag, MPI_COMM_WORLD, &message.requests.emplace_back());
    }
  }
  if (finished(message.requests)) {
    leaving_.pop_back();
    return;
  }
  if (!proxy_runs_) {
    proxy_runs_ = true;
    std::thread(&MessageQueue::deliver_alone, this).detach();
  }
  something_leaves_.notify_one();
}

// A large message leaves only while its sender calls MPI, but the sender is free to go on with
// something else. This thread sleeps whenever nothing is under way.
void MessageQueue::deliver_alone() {
  std::unique_lock lock(mutex_);
  while (!closed_) {
    something_leaves_.wait(lock, [this] { return closed_ || !leaving_.empty(); });
    if (!closed_) advance();
    bool idle = leaving_.empty();
    lock.unlock();
    if (!idle) std::this_thread::sleep_for(std::chrono::microseconds(300));
    lock.lock();
  }
}

void MessageQueue::progress() {
  std::lock_guard lock(mutex_);
  if (connected_ && !closed_) advance();
}

void MessageQueue::advance() {
  for (int i = 0; i < 64 && receive_one(); ++i) {
  }
  std::erase_if(arriving_, [](Arriving& one) {
    if (!finished(one.requests)) return false;
    one.message->complete = true;
    return true;
  });
  std::erase_if(leaving_, [](Leaving& one) { return finished(one.requests); });
}

bool MessageQueue::receive_one() {
  int flag = 0;
  MPI_Message probed;
  MPI_Status status;
  MPI_Improbe(MPI_ANY_SOURCE, head_tag, MPI_COMM_WORLD, &flag, &probed, &status);
  if (flag == 0) return false;
  int size = 0;
  MPI_Get_count(&status, MPI_BYTE, &size);
  std::vector<std::byte> head(static_cast<std::size_t>(size));
  MPI_Mrecv(head.data(), size, MPI_BYTE, &probed, MPI_STATUS_IGNORE);

  auto message = std::make_shared<Message>();
  std::memcpy(&message->header, head.data(), sizeof(Header));
  std::size_t bytes = message->header.bytes;
  if (head.size() > sizeof(Header)) {
    message->payload = Payload::copy_of(head.data() + sizeof(Header), bytes);
  } else if (bytes > 0) {
    message->payload = Payload::allocate(bytes);
    message->complete = false;
    Arriving& arriving = arriving_.emplace_back(Arriving{message, {}});
    for (std::size_t at = 0; at < bytes; at += chunk_limit) {
      MPI_Irecv(message->payload.data.get() + at,
                static_cast<int>(std::min(chunk_limit, bytes - at)), MPI_BYTE, status.MPI_SOURCE,
                body_tag, MPI_COMM_WORLD, &arriving.requests.emplace_back());
    }
  }
  file(std::move(message));
  return true;
}

void MessageQueue::file(MessagePtr message) {
  const Header& head = message->header;
  if (head.kind == Kind::hello) {
    auto [place, is_new] =
        messages_.try_emplace(Key{head.comm, -1, head.kind, head.source, 0}, message);
    if (!is_new && place->second->header.process != head.process)
      place->second->contradicted = head.process;
    return;
  }
  if (forgotten_.contains({head.comm, head.target})) return;
  if (head.kind == Kind::notice) {
    const auto* text = reinterpret_cast<const char*>(message->payload.data.get());
    notices_[{head.comm, head.target}].push_back(
        {head.source, head.words[0] != 0, std::string(text, message->payload.size)});
    return;
  }
  messages_.emplace(Key{head.comm, head.target, head.kind, head.source, head.number},
                    std::move(message));
}

MessagePtr MessageQueue::take(const CommId& comm, int target, Kind kind, int source,
                              std::uint64_t number) {
  std::lock_guard lock(mutex_);
  auto place = messages_.find(Key{comm, target, kind, source, number});
  if (place == messages_.end() || !place->second->complete) return nullptr;
  MessagePtr message = std::move(place->second);
  messages_.erase(place);
  return message;
}

std::optional<Message> MessageQueue::look(const CommId& comm, int target, Kind kind, int source,
                                          std::uint64_t number) {
  std::lock_guard lock(mutex_);
  auto place = messages_.find(Key{comm, target, kind, source, number});
  if (place == messages_.end()) return std::nullopt;
  return *place->second;
}

std::vector<Notice> MessageQueue::notices(const CommId& comm, int target) {
  std::lock_guard lock(mutex_);
  auto place = notices_.find({comm, target});
  return place == notices_.end() ? std::vector<Notice>() : place->second;
}

std::optional<Header> MessageQueue::waiting(const CommId& comm, int target, Kind kind, int source) {
  std::lock_guard lock(mutex_);
  auto place = messages_.lower_bound(Key{comm, target, kind, source, 0});
  if (place == messages_.end()) return std::nullopt;
  const Header& header = place->second->header;
  bool same = header.comm == comm && header.target == target && header.kind == kind &&
              header.source == source;
  return same ? std::optional(header) : std::nullopt;
}

void MessageQueue::forget(const CommId& comm, int target) {
  std::lock_guard lock(mutex_);
  forgotten_.insert({comm, target});
  messages_.erase(messages_.lower_bound(Key{comm, target, Kind::part, -1, 0}),
                  messages_.upper_bound(Key{comm, target, Kind::notice, INT32_MAX, UINT64_MAX}));
  notices_.erase({comm, target});
}

}  // namespace tidemark::nccl
