#include "harness/world.h"

#include <cstdlib>
#include <memory>

namespace tidemark {

World::World(MPI_Comm comm) {
  MPI_Comm_dup(comm, &comm_);
  MPI_Comm_rank(comm_, &rank_);
  MPI_Comm_size(comm_, &size_);
  leads_ = rank_ == 0;
}

World::World(int rank, int size) : rank_(rank), size_(size), alone_(true) {
  MPI_Comm_dup(MPI_COMM_SELF, &comm_);
  setenv("TIDEMARK_NCCL_ALONE", "1", 1);
}

World::~World() {
  if (alone_) unsetenv("TIDEMARK_NCCL_ALONE");
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (!finalized) MPI_Comm_free(&comm_);
}

void World::barrier() const { MPI_Barrier(comm_); }

std::vector<std::string> World::gather(const std::string& mine) const {
  // In pieces, so that a record of more than 2 GiB in all cannot overflow MPI's counts.
  std::vector<std::string> all;
  if (!leads_) {
    std::uint64_t size = mine.size();
    MPI_Send(&size, 1, MPI_UINT64_T, 0, 0, comm_);
    MPI_Send(mine.data(), static_cast<int>(size), MPI_CHAR, 0, 1, comm_);
    return all;
  }
  all.push_back(mine);
  for (int peer = 1; !alone_ && peer < size_; ++peer) {
    std::uint64_t size = 0;
    MPI_Recv(&size, 1, MPI_UINT64_T, peer, 0, comm_, MPI_STATUS_IGNORE);
    std::string text(size, '\0');
    MPI_Recv(text.data(), static_cast<int>(size), MPI_CHAR, peer, 1, comm_, MPI_STATUS_IGNORE);
    all.push_back(std::move(text));
  }
  return all;
}

std::string World::broadcast(const std::string& text) const {
  std::uint64_t size = text.size();
  MPI_Bcast(&size, 1, MPI_UINT64_T, 0, comm_);
  std::string result = leads_ ? text : std::string(size, '\0');
  constexpr std::uint64_t kPiece = 1u << 30;
  for (std::uint64_t at = 0; at < size; at += kPiece)
    MPI_Bcast(result.data() + at, static_cast<int>(std::min(kPiece, size - at)), MPI_CHAR, 0,
              comm_);
  return result;
}

int World::worst(int code) const {
  MPI_Allreduce(MPI_IN_PLACE, &code, 1, MPI_INT, MPI_MAX, comm_);
  return code;
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
