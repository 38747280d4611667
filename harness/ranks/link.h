// Messages between the ranks of a run, on the host: over sockets of one machine (local_link.h) or
// over the MPI of the launcher (mpi_link.h). World makes the collective exchanges from them.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tidemark {

/// Selects messages: the world that they belong to, and their purpose in it.
struct Tag {
  std::uint64_t world = 0;
  std::int32_t purpose = 0;
  auto operator<=>(const Tag&) const = default;
};

/// Messages between each rank and rank 0; other pairs of ranks have none. One rank alone by itself.
/// Calls may come from any thread, one after the other.
class Link {
 public:
  using Clock = std::chrono::steady_clock;
  static constexpr int kAny = -1;

  Link(int rank, int size) : rank_(rank), size_(size) {}
  virtual ~Link() = default;
  Link(const Link&) = delete;
  Link& operator=(const Link&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Sends, and returns when the text has left or at `end`; what has not left then follows with
  /// later calls. Messages of one tag arrive in the order in which they were sent.
  void send(int target, const Tag& tag, const std::string& text, Clock::time_point end);
  /// The next message of the tag from `source` (or kAny) that has come, with the rank that sent it.
  /// Throws std::runtime_error where that rank has ended and its message will not come.
  std::optional<std::pair<int, std::string>> arrived(int source, const Tag& tag);
  /// True if a message of the tag has arrived; it stays.
  bool waits(const Tag& tag);
  /// A number that the worlds of this link do not have yet, the same on every rank that makes them
  /// in the same order.
  std::uint64_t next_world() { return ++worlds_; }

  /// The library under it ("Open MPI v4.1.4"); "none" for sockets.
  virtual std::string library() const { return "none"; }
  /// Ends the ranks, as far as the launcher does not by itself. Callable while another thread uses
  /// the link.
  virtual void abort(int /*code*/) {}

 protected:
  void file(int source, const Tag& tag, std::string text);

 private:
  /// Takes the message over and sends what it can: whether everything has left.
  virtual bool push(int /*target*/, const Tag&, const std::string& /*text*/) { return true; }
  /// Sends what push() could not: whether everything has left.
  virtual bool flush() { return true; }
  /// Files what has come.
  virtual void pull() {}
  /// Throws where the rank (or, for kAny, one of them) has ended some time ago.
  virtual void require_alive(int /*source*/) {}

  const int rank_, size_;
  std::mutex mutex_;
  std::uint64_t worlds_ = 0;
  std::map<Tag, std::vector<std::pair<int, std::string>>> inbox_;
};

}  // namespace tidemark
