#include "harness/ranks/link.h"

#include <algorithm>
#include <thread>

namespace tidemark {

void Link::send(int target, const Tag& tag, const std::string& text, Clock::time_point end) {
  bool left = false;
  {
    std::lock_guard lock(mutex_);
    left = push(target, tag, text);
  }
  while (!left && Clock::now() < end) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
    std::lock_guard lock(mutex_);
    pull();  // the other side may be sending too
    left = flush();
  }
}

std::optional<std::pair<int, std::string>> Link::arrived(int source, const Tag& tag) {
  std::lock_guard lock(mutex_);
  flush();
  pull();
  auto& messages = inbox_[tag];
  const auto match = std::ranges::find_if(
      messages, [&](const auto& one) { return source == kAny || one.first == source; });
  if (match == messages.end()) {
    require_alive(source);
    return std::nullopt;
  }
  auto message = std::move(*match);
  messages.erase(match);
  if (messages.empty()) inbox_.erase(tag);
  return message;
}

bool Link::waits(const Tag& tag) {
  std::lock_guard lock(mutex_);
  pull();
  const auto messages = inbox_.find(tag);
  return messages != inbox_.end() && !messages->second.empty();
}

void Link::file(int source, const Tag& tag, std::string text) {
  inbox_[tag].emplace_back(source, std::move(text));
}

}  // namespace tidemark
