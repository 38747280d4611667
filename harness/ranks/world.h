// The ranks of a run: the number of this rank, the number of all ranks, and the few exchanges on
// the host that the harness itself needs (over a Link, through rank 0). Tensors are never sent
// here; harness/parallel/communicator.h does that.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "harness/ranks/link.h"

namespace tidemark {

class World {
 public:
  /// The ranks of a link. All of them make their worlds in the same order. Without an argument: one
  /// rank of one.
  explicit World(std::shared_ptr<Link> link = std::make_shared<Link>(0, 1));
  /// One rank of `size` in a process of its own, without its partners (shapes only; sets
  /// TIDEMARK_NCCL_ALONE, which declares communicators without partners, while it lives): exchanges
  /// answer with one's own part.
  World(int rank, int size);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  int rank() const { return rank_; }
  bool leads() const { return leads_; }  // rank 0, or alone: what broadcast sends is this one's
  bool alone() const { return alone_; }
  int size() const { return size_; }
  const Link& link() const { return *link_; }

  void barrier() const;
  std::vector<std::string> gather(
      const std::string& mine) const;                    // on rank 0: of all ranks; elsewhere empty
  std::string broadcast(const std::string& text) const;  // rank 0's
  int worst(int code) const;                             // the largest, on all
  double timeout = 600;  // seconds that the two below wait for another rank
  /// Everybody's text (of at most 2,000 bytes, longer ones are cut), by rank, on every rank; alone,
  /// one's own. Throws std::runtime_error that names who has not answered in time, with the texts
  /// of the others as `readable` words them.
  std::vector<std::string> exchange(
      const std::string& mine, std::string (*readable)(const std::string&) =
                                   [](const std::string& text) { return text; }) const;
  /// Rank 0's text, once every rank is here. Throws PartnerFailed where one of them is in
  /// exchange() instead (it has failed, so it will not come) or has not come in time.
  std::string meet(const std::string& leaders) const;
  /// The first `ranks` ranks as a world of their own; null on the others. Called by all ranks.
  std::unique_ptr<World> first(int ranks) const;

 private:
  World(std::shared_ptr<Link> link, std::uint64_t number, int size);
  bool has_partners() const { return !alone_ && size_ > 1; }

  std::shared_ptr<Link> link_;
  std::uint64_t number_ = 0;  // of this world on its link
  int rank_ = 0, size_ = 1;
  bool leads_ = true, alone_ = false;
  bool declares_alone_ = false;  // and takes it back at the end: no other such world is around it
};

}  // namespace tidemark
