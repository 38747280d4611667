#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <mpi.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <thread>

#include "harness/cli/commands.h"
#include "harness/cli/deliver.h"
#include "harness/cli/dry_run.h"
#include "harness/cli/oom.h"
#include "harness/cli/prepare.h"
#include "harness/cli/trials.h"
#include "harness/device/arithmetic.h"
#include "harness/device/devices.h"
#include "harness/device/libraries.h"
#include "harness/device/platform.h"
#include "harness/device/shared_gpu.h"
#include "harness/parallel/live_communicators.h"
#include "harness/ranks/flight_recorder.h"
#include "harness/ranks/launch.h"
#include "harness/ranks/watchdog.h"
#include "harness/run/variant.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

constexpr int kLongestTrial = 60;  // s, of NCCL on a shared GPU; it takes seconds to connect

// The launching process has chosen and made the folder; under another launcher rank 0 does,
// and all ranks hear of it where it cannot.
fs::path folder_of(const Options& options, const std::string& id, World& world) {
  if (launched_by_tidemark()) return options.out;
  std::string folder, wrong;
  if (world.rank() == 0) {
    try {
      folder = output_folder(options.out, id).string();
    } catch (const UsageError& error) {
      wrong = error.what();
    }
  }
  wrong = world.broadcast(wrong);
  if (!wrong.empty()) throw UsageError(wrong);
  return folder;
}

constexpr std::chrono::seconds kFarewell{5};  // that NCCL may take to abort

// The others may be waiting for this rank in a collective; nothing but the end of the process, or
// of its communicators, tells them. Kernels that wait for others would keep a real GPU besides.
[[noreturn]] void give_up(int rank, const std::string& what) {
  static std::atomic<bool> gives_up = false;
  while (gives_up.exchange(true)) pause();  // another thread is ending this process
  if (first_to_fail(fmt::format("rank {}: {}", rank, what))) {
    fmt::print(stderr, "error: rank {}: {}\n", rank, what);
    std::fflush(stderr);
  }
  live_communicators::abort_all(kFarewell);
  MPI_Abort(MPI_COMM_WORLD, 3);
  std::_Exit(3);
}

// The virtual NCCL detects missing ranks itself, so no watchdog is needed there. On a GPU the
// time-out is 30 s longer than that of the collectives, because their message is more precise.
std::jthread watch(int rank, int timeout) {
  if (virtual_device() != nullptr) return {};
  return start_watchdog({flight::beats, live_communicators::trouble},
                        std::chrono::seconds(timeout + 30), [=](const std::string& trouble) {
                          const std::string what =
                              trouble.empty()
                                  ? fmt::format("has not got any further for {} s (--timeout)",
                                                timeout + 30)
                                  : trouble;
                          const std::string here = flight::here();
                          give_up(rank, what + (here.empty() ? "" : ": ") + here);
                        });
}

// The note that the user sees: which ranks share a GPU (and NCCL takes them so), or for which rank
// this one stands.
std::string seat(const Options& options, int ranks, const World& all) {
  const std::string sharing = take_seat(all);
  if (options.stand_for >= 0)
    return fmt::format(
        "one process stands for rank {} of {}: memory alone, its collectives have no partners",
        options.stand_for, ranks);
  if (!sharing.empty() && !collectives_are_staged()) {
    platform().begin(platform_schedules().front(), Mode::math);  // a rehearsal's bytes move
    require_collectives(all, std::min(options.timeout, kLongestTrial));
  }
  return sharing;
}

// Found on one rank, it is an error on all of them.
void require_arithmetic(const std::vector<PlannedTrial>& planned, const World& all) {
  const bool computes = std::ranges::any_of(planned, [](const PlannedTrial& each) {
    return each.trial.mode == Mode::math && each.unfit.empty();
  });
  for (const std::string& fault : all.exchange(computes ? arithmetic_fault() : ""))
    if (!fault.empty()) throw UsageError(fault);
}

}  // namespace

int rank_command(const Options& options, int argc, char** argv) {
  // Not in shared memory at an address of mpirun's choice (PMIx 5): the virtual device may have it.
  setenv("PMIX_MCA_gds", "hash", 0);
  int level = 0;
  MPI_Init_thread(&argc, &argv, MPI_THREAD_MULTIPLE, &level);
  int code = 3;
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  try {
    if (level < MPI_THREAD_MULTIPLE)
      throw std::runtime_error(
          "this MPI was built without MPI_THREAD_MULTIPLE, which autograd's threads need");
    World all(MPI_COMM_WORLD);
    if (const int said = launcher_size(); said > all.size())
      throw UsageError(
          fmt::format("the launcher started {} ranks that this MPI cannot connect: use mpirun -n "
                      "{}, or srun --mpi=pmix",
                      said, said));
    const int ranks = options.request.ranks == 0 ? all.size() : options.request.ranks;
    const bool alone = options.stand_for >= 0;
    if (ranks > all.size() && !alone)
      throw UsageError(fmt::format("--ranks {}: the launcher started only {} (mpirun -n {})", ranks,
                                   all.size(), ranks));
    const auto [planned, note] = prepare(options, ranks);
    if (options.dry_run) {
      if (rank == 0) print_plan(planned, options);
      MPI_Finalize();
      return 0;
    }
    RunRecord run = describe_run(argc, argv);
    run.require_all = options.require_all;
    const fs::path folder = folder_of(options, run.id, all);
    if (rank == 0 && !launched_by_tidemark()) std::fputs(note.c_str(), stderr);
    flight::open(session_folder(), rank);
    at::set_num_threads(1);
    set_arithmetic();
    at::globalContext().lazyInitDevice(at::kCUDA);
    run.sharing = seat(options, ranks, all);
    if (rank == 0 && !run.sharing.empty()) fmt::print(stderr, "note: {}\n", run.sharing);
    run.arithmetic = arithmetic().text;
    require_arithmetic(planned, all);
    watch_out_of_memory();
    code = 0;
    auto world = !alone      ? all.first(ranks)
                 : rank == 0 ? std::make_unique<World>(options.stand_for, ranks)
                             : nullptr;
    if (world) {
      world->patience = options.timeout;
      std::jthread watchdog = watch(rank, options.timeout);
      const Report report = run_all(planned, *world, options, run, folder);
      watchdog = {};
      if (world->leads()) code = deliver(report, folder, options);
    }
    code = all.worst(code);
  } catch (const UsageError& error) {  // these three are the same on all ranks: none waits
    if (rank == 0) fmt::print(stderr, "error: {}\n", error.what());
    code = 2;
  } catch (const NothingSelected& error) {
    if (rank == 0) fmt::print(stderr, "error: {}\n", error.what());
    code = 4;
  } catch (const CollectivesRefused& error) {
    if (rank == 0 && options.collectives == "auto" && launched_by_tidemark())
      ask_again(error.what());
    else if (rank == 0)
      fmt::print(stderr, "error: {}: --collectives staged goes through the host's memory\n",
                 error.what());
  } catch (const std::exception& error) {
    give_up(rank, first_line(error));
  }
  MPI_Finalize();
  return leave(rank, code);
}

}  // namespace tidemark
