#include "harness/virtual/nccl/mpi_world.h"

#include <mpi.h>

#include <cstdlib>
#include <future>
#include <mutex>
#include <thread>

#include "harness/virtual/nccl/failure.h"

namespace tidemark::nccl {
namespace {

int number_of(const char* variable) {
  const char* text = std::getenv(variable);
  return text == nullptr ? 0 : std::atoi(text);
}

// How many processes the launcher started, as far as it says so; 0 without a launcher that MPI
// could talk to.
int launched() {
  for (const char* variable : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE"}) {
    if (int size = number_of(variable)) return size;
  }
  return std::getenv("PMIX_RANK") != nullptr ? number_of("SLURM_NTASKS") : 0;
}

const char* name_of(int level) {
  if (level == MPI_THREAD_SINGLE) return "MPI_THREAD_SINGLE";
  return level == MPI_THREAD_FUNNELED ? "MPI_THREAD_FUNNELED" : "MPI_THREAD_SERIALIZED";
}

void finalize_at_exit() {
  int finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized == 0) MPI_Finalize();
}

// MPI_Init waits for every process of the job, and has no time-out of its own.
void initialise() {
  setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
  // Not in shared memory at an address of mpirun's choice (PMIx 5): the virtual device may have it.
  setenv("PMIX_MCA_gds", "hash", 0);
  auto done = std::make_shared<std::promise<void>>();
  auto finished = done->get_future();
  std::thread([done] {
    int level = 0;
    MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &level);
    done->set_value();
  }).detach();
  if (finished.wait_for(time_limit()) != std::future_status::ready) {
    fail(ncclSystemError,
         "MPI_Init has waited {} s for the other processes of the job: every rank has to use NCCL "
         "or MPI",
         time_limit().count());
  }
  std::atexit(finalize_at_exit);
}

}  // namespace

bool in_mpi_world() {
  int initialized = 0, size = 1;
  MPI_Initialized(&initialized);
  if (initialized == 0) return launched() > 1;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size > 1;
}

MpiWorld join_world() {
  static auto* mutex = new std::mutex;
  std::lock_guard lock(*mutex);
  int initialized = 0, finalized = 0;
  MPI_Finalized(&finalized);
  if (finalized != 0)
    fail(ncclInvalidUsage, "MPI is already finalised: create communicators before MPI_Finalize");
  MPI_Initialized(&initialized);
  if (initialized == 0) {
    if (launched() <= 1) return {};
    initialise();
  }
  MpiWorld world;
  MPI_Comm_size(MPI_COMM_WORLD, &world.size);
  MPI_Comm_rank(MPI_COMM_WORLD, &world.rank);
  int level = 0;
  MPI_Query_thread(&level);
  if (world.size > 1 && level != MPI_THREAD_MULTIPLE) {
    fail(ncclInvalidUsage,
         "the program has initialised MPI with {}: NCCL's threads need "
         "MPI_Init_thread(MPI_THREAD_MULTIPLE)",
         name_of(level));
  }
  return world;
}

}  // namespace tidemark::nccl
