#include "harness/virtual/nccl/message_queue.h"

#include <cstdlib>

#include "harness/virtual/nccl/failure.h"
#include "harness/virtual/nccl/waiting.h"

namespace tidemark::nccl {

MessageQueue& MessageQueue::of_process() {
  static auto* queue = new MessageQueue;  // outlives every thread
  return *queue;
}

Network& MessageQueue::network() {
  std::lock_guard lock(making_);
  if (network_ == nullptr) {
    network_ = new Network([this](MessagePtr message) { file(std::move(message)); });
    std::atexit([] { of_process().close(); });
  }
  return *network_;
}

Address MessageQueue::address() {
  if (declared_alone()) return {};
  try {
    return network().address();
  } catch (const Failure&) {
    return {};  // a process that wants partners is told then
  }
}

void MessageQueue::send(int process, const Header& header, const Payload& payload) {
  Network* network = network_;
  Header stamped = header;
  stamped.bytes = payload.size;
  if (process == here) {
    file(std::make_shared<Message>(Message{stamped, payload, -1}));
  } else if (network != nullptr) {
    network->send(process, stamped, payload);
  }
}

void MessageQueue::close() {
  if (Network* network = network_) network->close();
}

void MessageQueue::file(MessagePtr message) {
  std::lock_guard lock(mutex_);
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
  if (place == messages_.end()) return nullptr;
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
