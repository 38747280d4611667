#include "harness/ranks/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <stdexcept>
#include <thread>
#include <utility>

#include "harness/errors.h"

namespace tidemark {
namespace {

using Clock = Link::Clock;
constexpr const char* kAlone = "TIDEMARK_NCCL_ALONE";
constexpr double kGrace = 3;  // seconds
enum Purpose { kIn, kOut, kGathering, kTelling, kAnswering, kMeeting, kMet };

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

// Asleep: a rank that waits would keep a core from the one that it waits for.
bool in_time(Clock::time_point end) {
  std::this_thread::sleep_for(std::chrono::microseconds(100));
  return Clock::now() < end;
}

// As long as it takes: the launcher ends this rank if another one has failed.
std::string receive(Link& link, int source, Tag tag) {
  for (int tries = 0;; ++tries) {
    if (auto message = link.arrived(source, tag)) return std::move(message->second);
    std::this_thread::sleep_for(std::chrono::microseconds(tries < 50 ? 20 : 500));
  }
}

constexpr char kHere = '+', kNotHere = '-';  // before what rank 0 answers to those who meet

}  // namespace

World::World(std::shared_ptr<Link> link) : World(link, link->next_world(), link->size()) {}

World::World(std::shared_ptr<Link> link, std::uint64_t number, int size)
    : link_(std::move(link)),
      number_(number),
      rank_(link_->rank()),
      size_(size),
      leads_(rank_ == 0) {}

World::World(int rank, int size)
    : link_(std::make_shared<Link>(0, 1)),
      rank_(rank),
      size_(size),
      alone_(true),
      declares_alone_(std::getenv(kAlone) == nullptr) {
  setenv(kAlone, "1", 1);
}

World::~World() {
  if (declares_alone_) unsetenv(kAlone);
}

void World::barrier() const { worst(0); }

std::vector<std::string> World::gather(const std::string& mine) const {
  const Tag tag{number_, kGathering};
  if (!leads_) {
    link_->send(0, tag, mine, Clock::time_point::max());
    return {};
  }
  std::vector<std::string> all{mine};
  for (int peer = 1; has_partners() && peer < size_; ++peer)
    all.push_back(receive(*link_, peer, tag));
  return all;
}

std::string World::broadcast(const std::string& text) const {
  const Tag tag{number_, kOut};
  if (!leads_) return receive(*link_, 0, tag);
  for (int peer = 1; has_partners() && peer < size_; ++peer)
    link_->send(peer, tag, text, Clock::time_point::max());
  return text;
}

int World::worst(int code) const {
  const Tag tag{number_, kIn};
  if (!leads_) link_->send(0, tag, std::to_string(code), Clock::time_point::max());
  for (int peer = 1; leads_ && has_partners() && peer < size_; ++peer)
    code = std::max(code, std::stoi(receive(*link_, peer, tag)));
  return std::stoi(broadcast(std::to_string(code)));
}

std::string World::meet(const std::string& leaders) const {
  if (!has_partners()) return leaders;
  auto end = after(leads_ ? timeout : timeout + 2 * kGrace);
  if (!leads_) {
    link_->send(0, {number_, kMeeting}, {}, end);
    do {
      if (auto answer = link_->arrived(0, {number_, kMet})) {
        if (answer->second.at(0) == kNotHere) throw PartnerFailed(answer->second.substr(1));
        return answer->second.substr(1);
      }
    } while (in_time(end));
    throw PartnerFailed("rank 0 has not joined the communicator in time");
  }
  std::vector<int> here;
  std::string trouble;
  do {
    while (auto message = link_->arrived(Link::kAny, {number_, kMeeting}))
      here.push_back(message->first);
    if (here.size() + 1 == static_cast<std::size_t>(size_)) break;
    if (link_->waits({number_, kTelling}))
      trouble = "another rank has aborted the communicator before it was made";
  } while (trouble.empty() && in_time(end));
  if (trouble.empty() && here.size() + 1 < static_cast<std::size_t>(size_))
    trouble = fmt::format("only {} of {} ranks have joined the communicator in time",
                          here.size() + 1, size_);
  for (const int rank : here)
    link_->send(rank, {number_, kMet}, trouble.empty() ? kHere + leaders : kNotHere + trouble,
                after(timeout));
  if (!trouble.empty()) throw PartnerFailed(trouble);
  return leaders;
}

std::vector<std::string> World::exchange(const std::string& mine,
                                         std::string (*readable)(const std::string&)) const {
  if (!has_partners()) return {mine};
  // Rank 0 gives up first: it knows who is missing.
  auto end = after(leads_ ? timeout : timeout + 2 * kGrace);
  const std::string text = mine.substr(0, 2000);
  if (!leads_) {
    link_->send(0, {number_, kTelling}, text, end);
    std::vector<std::string> all;
    do {
      while (auto message = link_->arrived(0, {number_, kAnswering})) {
        all.push_back(message->second);
        if (all.size() == static_cast<std::size_t>(size_)) return all;
      }
    } while (in_time(end));
    throw std::runtime_error(
        "rank 0 has not arrived at the end of the variant in time" +
        (text.empty() ? "" : fmt::format("; rank {}: {}", rank_, readable(text))));
  }
  std::vector<std::optional<std::string>> texts(static_cast<std::size_t>(size_));
  std::string trouble;
  const auto tell = [&](int rank, const std::string& what) {
    texts[static_cast<std::size_t>(rank)] = what;
    if (what.empty()) return;
    // If a rank has failed, the others have been texts, so they arrive soon or never.
    if (trouble.empty()) end = std::min(end, after(kGrace));
    trouble += fmt::format("; rank {}: {}", rank, readable(what));
  };
  tell(0, text);
  do {
    while (auto message = link_->arrived(Link::kAny, {number_, kTelling}))
      tell(message->first, message->second);
    while (auto message = link_->arrived(Link::kAny, {number_, kMeeting}))
      link_->send(message->first, {number_, kMet},
                  kNotHere + std::string("rank 0 has aborted the communicator before it was made"),
                  end);
    if (std::ranges::all_of(texts, [](const auto& one) { return one.has_value(); })) break;
  } while (in_time(end));
  std::vector<std::string> all;
  std::string missing;
  for (std::size_t rank = 0; rank < texts.size(); ++rank) {
    if (!texts[rank]) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    all.push_back(texts[rank].value_or(""));
  }
  if (!missing.empty())
    throw std::runtime_error(fmt::format(
        "rank {} has not arrived at the end of the variant in time{}", missing, trouble));
  for (int peer = 1; peer < size_; ++peer)
    for (const auto& one : all) link_->send(peer, {number_, kAnswering}, one, after(timeout));
  return all;
}

std::unique_ptr<World> World::first(int ranks) const {
  const std::uint64_t number = link_->next_world();
  if (rank_ >= ranks) return nullptr;
  return std::unique_ptr<World>(new World(link_, number, ranks));
}

}  // namespace tidemark
