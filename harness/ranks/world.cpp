#include "harness/ranks/world.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <memory>
#include <optional>
#include <stdexcept>
#include <thread>

namespace tidemark {

namespace {

constexpr std::uint64_t kPiece = 1u << 30;  // bytes of one message: MPI counts in int

// Asleep: inside MPI a rank that waits would keep a core from the one that it waits for.
constexpr const char* kAlone = "TIDEMARK_NCCL_ALONE";

void finish(MPI_Request request) {
  using std::chrono::microseconds;
  int done = 0;
  for (int tries = 0; MPI_Test(&request, &done, MPI_STATUS_IGNORE), !done; ++tries)
    std::this_thread::sleep_for(microseconds(tries < 50 ? 20 : 500));
}

}  // namespace

World::World(MPI_Comm comm) {
  MPI_Comm_dup(comm, &comm_);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  leads_ = rank_ == 0;
}

World::World(int rank, int size)
    : rank_(rank), size_(size), alone_(true), declares_alone_(std::getenv(kAlone) == nullptr) {
  MPI_Comm_dup(MPI_COMM_SELF, &comm_);
  setenv(kAlone, "1", 1);
}

World::~World() {
  if (declares_alone_) unsetenv(kAlone);
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) MPI_Comm_free(&comm_);
}

void World::barrier() const {
  MPI_Request request;
  MPI_Ibarrier(comm_, &request);
  finish(request);
}

std::vector<std::string> World::gather(const std::string& mine) const {
  // One after the other, when rank 0 says so.
  std::vector<std::string> all;
  MPI_Request request;
  char turn = 0;
  if (!leads_) {
    MPI_Irecv(&turn, 1, MPI_CHAR, 0, 0, comm_, &request);
    finish(request);
    const std::uint64_t size = mine.size();
    MPI_Send(&size, 1, MPI_UINT64_T, 0, 0, comm_);
    for (std::uint64_t at = 0; at < size; at += kPiece)
      MPI_Send(mine.data() + at, static_cast<int>(std::min(kPiece, size - at)), MPI_CHAR, 0, 1,
               comm_);
    return all;
  }
  all.push_back(mine);
  for (int peer = 1; !alone_ && peer < size_; ++peer) {
    std::uint64_t size = 0;
    MPI_Send(&turn, 1, MPI_CHAR, peer, 0, comm_);
    MPI_Irecv(&size, 1, MPI_UINT64_T, peer, 0, comm_, &request);
    finish(request);
    std::string text(size, '\0');
    for (std::uint64_t at = 0; at < size; at += kPiece)
      MPI_Recv(text.data() + at, static_cast<int>(std::min(kPiece, size - at)), MPI_CHAR, peer, 1,
               comm_, MPI_STATUS_IGNORE);
    all.push_back(std::move(text));
  }
  return all;
}

std::string World::broadcast(const std::string& text) const {
  MPI_Request request;
  std::uint64_t size = text.size();
  MPI_Ibcast(&size, 1, MPI_UINT64_T, 0, comm_, &request);
  finish(request);
  std::string result = leads_ ? text : std::string(size, '\0');
  for (std::uint64_t at = 0; at < size; at += kPiece)
    MPI_Bcast(result.data() + at, static_cast<int>(std::min(kPiece, size - at)), MPI_CHAR, 0,
              comm_);
  return result;
}

int World::worst(int code) const {
  MPI_Request request;
  MPI_Iallreduce(MPI_IN_PLACE, &code, 1, MPI_INT, MPI_MAX, comm_, &request);
  finish(request);
  return code;
}

namespace {

constexpr double kGrace = 3;                                         // seconds
constexpr int kTelling = 2, kAnswering = 3, kMeeting = 4, kMet = 5;  // tags; gather has 0 and 1
using Clock = std::chrono::steady_clock;

Clock::time_point after(double seconds) {
  return Clock::now() +
         std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

bool in_time(Clock::time_point end) {
  std::this_thread::sleep_for(std::chrono::microseconds(100));
  return Clock::now() < end;
}

// The message of this tag that is there, as (source, text), or nothing.
std::optional<std::pair<int, std::string>> arrived(MPI_Comm comm, int source, int tag) {
  int there = 0;
  MPI_Status status;
  MPI_Iprobe(source, tag, comm, &there, &status);
  if (!there) return std::nullopt;
  int size = 0;
  MPI_Get_count(&status, MPI_CHAR, &size);
  std::string text(static_cast<std::size_t>(size), '\0');
  MPI_Recv(text.data(), size, MPI_CHAR, status.MPI_SOURCE, tag, comm, MPI_STATUS_IGNORE);
  return std::pair(status.MPI_SOURCE, text);
}

// MPI_Send can wait for a target that hangs, since a longer text leaves only once it is asked for.
// A text that has not left by `end` stays for the rest of the process.
void send(MPI_Comm comm, const std::string& text, int target, int tag, Clock::time_point end) {
  auto kept = std::make_unique<std::string>(text);
  MPI_Request request;
  MPI_Isend(kept->data(), static_cast<int>(kept->size()), MPI_CHAR, target, tag, comm, &request);
  int left = 0;
  for (MPI_Test(&request, &left, MPI_STATUS_IGNORE); !left && in_time(end);)
    MPI_Test(&request, &left, MPI_STATUS_IGNORE);
  if (!left) static_cast<void>(kept.release());
}

bool waits(MPI_Comm comm, int tag) {
  int there = 0;
  MPI_Iprobe(MPI_ANY_SOURCE, tag, comm, &there, MPI_STATUS_IGNORE);
  return there != 0;
}

constexpr char kHere = '+', kNotHere = '-';  // before what rank 0 answers to those who meet

}  // namespace

std::string World::meet(const std::string& leaders) const {
  if (alone_ || size_ == 1) return leaders;
  auto end = after(leads_ ? patience : patience + 2 * kGrace);
  if (!leads_) {
    send(comm_, {}, 0, kMeeting, end);
    do {
      if (auto answer = arrived(comm_, 0, kMet)) {
        if (answer->second.at(0) == kNotHere) throw std::runtime_error(answer->second.substr(1));
        return answer->second.substr(1);
      }
    } while (in_time(end));
    throw std::runtime_error("rank 0 has not joined the communicator in time");
  }
  std::vector<int> here;
  std::string trouble;
  do {
    while (auto message = arrived(comm_, MPI_ANY_SOURCE, kMeeting)) here.push_back(message->first);
    if (here.size() + 1 == static_cast<std::size_t>(size_)) break;
    if (waits(comm_, kTelling))
      trouble = "another rank has aborted the communicator before it was made";
  } while (trouble.empty() && in_time(end));
  if (trouble.empty() && here.size() + 1 < static_cast<std::size_t>(size_))
    trouble = fmt::format("only {} of {} ranks have joined the communicator in time",
                          here.size() + 1, size_);
  for (const int rank : here)
    send(comm_, trouble.empty() ? kHere + leaders : kNotHere + trouble, rank, kMet,
         after(patience));
  if (!trouble.empty()) throw std::runtime_error(trouble);
  return leaders;
}

std::vector<std::string> World::exchange(const std::string& mine) const {
  if (alone_ || size_ == 1) return {mine};
  // Rank 0 gives up first: it knows who is missing.
  auto end = after(leads_ ? patience : patience + 2 * kGrace);
  const std::string text = mine.substr(0, 2000);
  if (!leads_) {
    send(comm_, text, 0, kTelling, end);
    std::vector<std::string> all;
    do {
      while (auto message = arrived(comm_, 0, kAnswering)) {
        all.push_back(message->second);
        if (all.size() == static_cast<std::size_t>(size_)) return all;
      }
    } while (in_time(end));
    throw std::runtime_error("rank 0 has not arrived at the end of the variant in time" +
                             (text.empty() ? "" : fmt::format("; rank {}: {}", rank_, text)));
  }
  std::vector<std::optional<std::string>> told(static_cast<std::size_t>(size_));
  std::string trouble;
  const auto tell = [&](int rank, const std::string& what) {
    told[static_cast<std::size_t>(rank)] = what;
    if (what.empty()) return;
    // If a rank has failed, the others have been told, so they arrive soon or never.
    if (trouble.empty()) end = std::min(end, after(kGrace));
    trouble += fmt::format("; rank {}: {}", rank, what);
  };
  tell(0, text);
  do {
    while (auto message = arrived(comm_, MPI_ANY_SOURCE, kTelling))
      tell(message->first, message->second);
    while (auto message = arrived(comm_, MPI_ANY_SOURCE, kMeeting))
      send(comm_, kNotHere + std::string("rank 0 has aborted the communicator before it was made"),
           message->first, kMet, end);
    if (std::ranges::all_of(told, [](const auto& one) { return one.has_value(); })) break;
  } while (in_time(end));
  std::vector<std::string> all;
  std::string missing;
  for (std::size_t rank = 0; rank < told.size(); ++rank) {
    if (!told[rank]) missing += (missing.empty() ? "" : ", ") + std::to_string(rank);
    all.push_back(told[rank].value_or(""));
  }
  if (!missing.empty())
    throw std::runtime_error(fmt::format(
        "rank {} has not arrived at the end of the variant in time{}", missing, trouble));
  for (int peer = 1; peer < size_; ++peer)
    for (const auto& one : all) send(comm_, one, peer, kAnswering, after(patience));
  return all;
}

std::unique_ptr<World> World::first(int ranks) const {
  MPI_Comm part = MPI_COMM_NULL;
  MPI_Comm_split(comm_, rank_ < ranks ? 0 : MPI_UNDEFINED, rank_, &part);
  if (part == MPI_COMM_NULL) return nullptr;
  auto world = std::make_unique<World>(part);
  MPI_Comm_free(&part);
  return world;
}

}  // namespace tidemark
