#include "harness/virtual/nccl/bootstrap.h"

#include <algorithm>
#include <numeric>
#include <set>

#include "harness/virtual/nccl/cuda.h"
#include "harness/virtual/nccl/message_queue.h"
#include "harness/virtual/nccl/place.h"
#include "harness/virtual/nccl/transport.h"
#include "harness/virtual/nccl/waiting.h"

namespace tidemark::nccl {
namespace {

// A rank of an id is made once: a second communicator needs an id of its own.
void claim(const Request& request) {
  static auto* mutex = new std::mutex;
  static auto* claimed = new std::set<std::pair<CommId, int>>;
  std::lock_guard lock(*mutex);
  if (!claimed->insert({request.id, request.rank}).second) {
    fail(ncclInvalidUsage,
         "rank {} of this unique id was made before in this process: every communicator needs its "
         "own id",
         request.rank);
  }
}

void check(const Request& request) {
  if (request.result == nullptr)
    fail(ncclInvalidArgument, "the pointer to the new communicator is NULL");
  if (request.size < 1 || request.rank < 0 || request.rank >= request.size) {
    fail(ncclInvalidArgument, "rank {} of {} ranks: the rank has to lie in [0, ranks)",
         request.rank, request.size);
  }
  const ncclConfig_t* config = request.config;
  if (config == nullptr) return;
  if (config->magic != 0xcafebeef)
    fail(ncclInvalidArgument, "the ncclConfig_t lacks NCCL_CONFIG_INITIALIZER");
  if (config->blocking != NCCL_CONFIG_UNDEF_INT && config->blocking != 0 && config->blocking != 1) {
    fail(ncclInvalidArgument, "config.blocking is {}, not 0 or 1", config->blocking);
  }
}

std::optional<Message> greeting(const Request& request, int source) {
  return MessageQueue::of_process().look(request.id, -1, Kind::hello, source, 0);
}

int greet(const Request& request, const std::string& clock) {
  Network& network = MessageQueue::of_process().network();
  const Header hello{.comm = request.id,
                     .kind = Kind::hello,
                     .source = request.rank,
                     .process = here,
                     .call = {.count = static_cast<std::uint64_t>(request.size)},
                     .words = {place_in_job(), 0}};
  return network.greet(hello, clock, request.unique);
}

// Throws Failure where what a rank says contradicts another rank, or this one.
void check_hello(const Request& request, const Message& hello, const std::string& clock) {
  Network& network = MessageQueue::of_process().network();
  const int source = hello.header.source, process = hello.header.process;
  const auto us = [&] {
    return fmt::format("rank {} ({})", request.rank, network.name_of(here, process));
  };
  const auto them = [&] { return fmt::format("rank {} ({})", source, network.name_of(process)); };
  if (hello.contradicted >= 0) {
    fail(ncclInvalidUsage, "{} and {} both claim to be rank {} of {} of the same unique id",
         network.name_of(process), network.name_of(hello.contradicted), source, request.size);
  }
  const auto size = static_cast<int>(hello.header.call.count);
  if (size != request.size) {
    fail(ncclInvalidUsage, "{} wants a communicator of {} ranks, {} one of {}", us(), request.size,
         them(), size);
  }
  if (const std::string theirs = text_of(hello); theirs != clock) {
    fail(ncclInvalidUsage, "{} has {}, {} has {}: the ranks of a job need one clock", us(), clock,
         them(), theirs);
  }
  if (const std::string why = network.obstacle_to(process); !why.empty())
    fail(ncclSystemError, "{} and {} cannot meet: {}", us(), them(), why);
}

// All ranks, once every one of them has greeted; empty before.
Members gathered(const Request& request, const std::string& clock) {
  Members members;
  for (int source = 0; source < request.size; ++source) {
    auto message = greeting(request, source);
    if (!message) continue;
    check_hello(request, *message, clock);
    members.processes.push_back(message->header.process);
    members.places.push_back(static_cast<int>(message->header.words[0]));
  }
  if (static_cast<int>(members.processes.size()) < request.size) return {};
  members.places = places_of(members.places, members.processes);
  return members;
}

[[noreturn]] void report_absent(const Request& request, int server, double seconds) {
  std::vector<int> present, absent;
  for (int source = 0; source < request.size; ++source)
    (greeting(request, source) ? present : absent).push_back(source);
  fail(ncclRemoteError,
       "rank {} of {} ranks has not arrived after {} s: rank {} waits in ncclCommInitRank, and "
       "meets "
       "the others at {}",
       fmt::join(absent, ", "), request.size, seconds, fmt::join(present, ", "),
       MessageQueue::of_process().network().place_of(server));
}

void bootstrap_over_network(const std::vector<Request>& requests) {
  Network& network = MessageQueue::of_process().network();
  const std::string clock = clock_setting();
  std::vector<int> servers;
  for (const Request& request : requests) servers.push_back(greet(request, clock));
  Waiting waiting;
  std::vector<Members> members(requests.size());
  for (std::size_t i = 0; i < requests.size();) {
    members[i] = gathered(requests[i], clock);
    if (!members[i].processes.empty()) {
      ++i;
      continue;
    }
    if (const std::string other = network.other_version(requests[i].id); !other.empty())
      fail(ncclInvalidUsage, "{}", other);
    if (const std::string lost = network.loss(servers[i], "which made the unique id");
        !lost.empty())
      fail(ncclRemoteError, "{}: rank {} waits in ncclCommInitRank", lost, requests[i].rank);
    if (waiting.too_long()) report_absent(requests[i], servers[i], waiting.limit_seconds());
    waiting.rest();
  }
  for (std::size_t i = 0; i < requests.size(); ++i) {
    cuda::OnDevice on(requests[i].device);
    *requests[i].result =
        make_communicator(requests[i].id, requests[i].rank, members[i], false, requests[i].config);
  }
}

void bootstrap_here(const std::vector<Request>& requests) {
  for (const Request& request : requests) {
    auto present = std::count_if(requests.begin(), requests.end(),
                                 [&](const Request& r) { return r.id == request.id; });
    bool alone = present < request.size;
    const std::vector<int> all_here(static_cast<std::size_t>(request.size), here);
    Members members{all_here, all_here};
    if (alone) std::iota(members.places.begin(), members.places.end(), 0);
    cuda::OnDevice on(request.device);
    *request.result = make_communicator(request.id, request.rank, members, alone, request.config);
  }
}

}  // namespace

void bootstrap(const std::vector<Request>& requests) {
  for (const Request& request : requests) check(request);
  for (const Request& request : requests) claim(request);
  const bool with_partners = std::ranges::any_of(requests, [&](const Request& one) {
    return std::ranges::count(requests, one.id, &Request::id) < one.size;
  });
  if (with_partners && !declared_alone()) {
    bootstrap_over_network(requests);
  } else {
    bootstrap_here(requests);
  }
}

}  // namespace tidemark::nccl
