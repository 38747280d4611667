#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <fmt/format.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <functional>
#include <memory>
#include <thread>

#include "harness/cli/commands.h"
#include "harness/cli/deliver.h"
#include "harness/cli/dry_run.h"
#include "harness/cli/oom.h"
#include "harness/cli/prepare.h"
#include "harness/cli/salvage.h"
#include "harness/cli/trials.h"
#include "harness/device/arithmetic.h"
#include "harness/device/devices.h"
#include "harness/device/libraries.h"
#include "harness/device/platform.h"
#include "harness/device/shared_gpu.h"
#include "harness/parallel/live_communicators.h"
#include "harness/print.h"
#include "harness/ranks/flight_recorder.h"
#include "harness/ranks/launch.h"
#include "harness/ranks/link.h"
#include "harness/ranks/processes.h"
#include "harness/ranks/watchdog.h"
#include "harness/run/variant.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

constexpr int kLongestTrial = 60;  // s, of NCCL on a shared GPU; it takes seconds to connect

// Writes the report of what was finished. It is set in ranks of another launcher, which no process
// of tidemark outlives, once the run has a folder.
std::function<void(const Ending& ending)> rescue;

// One of the ranks does it, and the others give it the time.
void rescue_once(const fs::path& folder, const Options& options, const Ending& ending) {
  const fs::path session = folder / kUnfinished;
  if (!write_first(session / "failed", ending.why + "\n")) {
    for (int tries = 0; tries < 50 && fs::exists(session); ++tries) usleep(100'000);
    return;
  }
  try {
    const auto report = salvage(session, ending);
    if (report) deliver(*report, folder, options);
    remove_session(folder);
  } catch (const std::exception& error) {
    print(stderr, "error: the report of what was finished was not written: {}\n",
          first_line(error));
  }
}

constexpr std::array kEnds{SIGINT, SIGTERM, SIGHUP};

sigset_t ends() {
  sigset_t set;
  sigemptyset(&set);
  for (const int signal : kEnds) sigaddset(&set, signal);
  return set;
}

// A launcher ends its ranks by a signal, and gives them a second or more (mpirun), or half a minute
// (Slurm). Rank 0 uses it for the report.
void await_signal(int rank) {
  const sigset_t set = ends();
  if (rank != 0) {
    pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
    return;
  }
  std::thread([set] {
    int signal = 0;
    sigwait(&set, &signal);
    if (rescue)
      rescue({fmt::format("ended by its launcher (signal {}, {}): a rank that died, a limit, or an "
                          "interruption",
                          signal, strsignal(signal)),
              false});
    std::fflush(stdout);
    std::_Exit(3);
  }).detach();
}

// The launching process has chosen and made the folder; under another launcher rank 0 does,
// and all ranks hear of it.
fs::path folder_of(const Options& options, const std::string& id, World& world) {
  if (launched_by_tidemark()) return options.out;
  std::string folder, wrong;
  if (world.rank() == 0) {
    try {
      folder = output_folder(options.out, id, options.force).string();
      fs::create_directory(fs::path(folder) / kUnfinished);
    } catch (const std::exception& error) {
      wrong = first_line(error);
    }
  }
  wrong = world.broadcast(wrong);
  if (!wrong.empty()) throw UsageError(wrong);
  return world.broadcast(folder);
}

constexpr std::chrono::seconds kAbortTimeout{5};  // that NCCL may take to abort

// The others may be waiting for this rank in a collective; nothing but the end of the process, or
// of its communicators, tells them. Kernels that wait for others would keep a real GPU besides.
[[noreturn]] void give_up(Link& link, const std::string& what) {
  static std::atomic<bool> gives_up = false;
  while (gives_up.exchange(true)) pause();  // another thread is ending this process
  if (first_to_fail(fmt::format("rank {}: {}", link.rank(), what))) {
    print(stderr, "error: rank {}: {}\n", link.rank(), what);
    std::fflush(stderr);
  }
  if (rescue) rescue({fmt::format("rank {}: {}", link.rank(), what), false});
  std::fflush(stdout);
  live_communicators::abort_all(kAbortTimeout);
  link.abort(3);
  std::_Exit(3);
}

// The virtual NCCL detects missing ranks itself, so no watchdog is needed there. On a GPU the
// time-out is 30 s longer than that of the collectives, because their message is more precise.
std::jthread watch(Link& link, int timeout) {
  if (virtual_device() != nullptr) return {};
  return start_watchdog(
      {flight::beats, live_communicators::trouble}, std::chrono::seconds(timeout + 30),
      [&link, timeout](const std::string& trouble) {
        const std::string what =
            trouble.empty()
                ? fmt::format("has not got any further for {} s (--timeout)", timeout + 30)
                : trouble;
        const std::string here = flight::here();
        give_up(link, what + (here.empty() ? "" : ": ") + here);
      });
}

// The note that the user sees: which ranks share a GPU (and NCCL takes them so), or for which rank
// this one stands.
std::string sharing_note(const Options& options, int ranks, const World& all) {
  const std::string sharing = assign_gpu(all);
  if (options.as_rank >= 0)
    return fmt::format(
        "one process stands for rank {} of {}: memory alone, its collectives have no partners",
        options.as_rank, ranks);
  if (!sharing.empty() && !collectives_are_staged()) {
    platform().begin(platform_schedules().front(), Mode::math);  // a rehearsal's bytes move
    require_collectives(all, std::min(options.timeout, kLongestTrial));
  }
  return sharing;
}

// Ranks of several machines may find several installations.
void require_same_build(const World& all, const RunRecord& run) {
  const auto builds = all.exchange(fmt::format("{} on host {}", installation_of(run), run.host));
  const auto without_host = [](const std::string& build) {
    return build.substr(0, build.rfind(" on host "));
  };
  for (std::size_t rank = 1; rank < builds.size(); ++rank)
    if (without_host(builds[rank]) != without_host(builds[0]))
      throw Unavailable(
          fmt::format("the ranks are not of one installation: rank 0 is {}, rank {} is "
                      "{}",
                      builds[0], rank, builds[rank]),
          3);
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
  outlive_readers();
  const bool outlived = launched_by_tidemark();
  const sigset_t set = ends();
  if (!outlived) pthread_sigmask(SIG_BLOCK, &set, nullptr);  // before any thread is started
  std::shared_ptr<Link> link = link_of_launcher();
  int code = 3;
  const int rank = link->rank();
  if (!outlived) await_signal(rank);
  fs::path folder;
  try {
    World all(link);
    const int ranks = options.request.ranks == 0 ? all.size() : options.request.ranks;
    const bool alone = options.as_rank >= 0;
    if (ranks > all.size() && !alone)
      throw UsageError(fmt::format("--ranks {}: the launcher started only {} (mpirun -n {})", ranks,
                                   all.size(), ranks));
    const auto [planned, note] = prepare(options, ranks, all);
    if (options.dry_run) {
      if (rank == 0) print_plan(planned, options);
      return 0;
    }
    RunRecord run = describe_run(argc, argv);
    run.mpi = link->library();
    require_same_build(all, run);
    run.require_all = options.require_all;
    folder = folder_of(options, run.id, all);
    if (rank == 0 && !launched_by_tidemark()) print_text(stderr, note);
    const fs::path session = outlived ? session_folder() : folder / kUnfinished;
    flight::open(session, rank);
    at::set_num_threads(1);
    set_arithmetic();
    at::globalContext().lazyInitDevice(at::kCUDA);
    if (rank == 0 && !alone && ranks < all.size())
      print(stderr, "note: --ranks {}: {} of the {} processes of the launcher {} nothing\n", ranks,
            all.size() - ranks, all.size(), all.size() - ranks == 1 ? "does" : "do");
    run.sharing = sharing_note(options, ranks, all);
    if (rank == 0 && !run.sharing.empty()) print(stderr, "note: {}\n", run.sharing);
    run.arithmetic = arithmetic().text;
    require_arithmetic(planned, all);
    watch_out_of_memory();
    code = 0;
    auto world = !alone      ? all.first(ranks)
                 : rank == 0 ? std::make_unique<World>(options.as_rank, ranks)
                             : nullptr;
    if (world) {
      world->timeout = options.timeout;
      std::jthread watchdog = watch(*link, options.timeout);
      if (!outlived && !folder.empty())
        rescue = [folder, options](const Ending& ending) { rescue_once(folder, options, ending); };
      const Report report = run_all(planned, *world, options, run, folder, session);
      watchdog = {};
      if (world->leads()) code = deliver(report, folder, options);
    }
    code = all.worst(code);
  } catch (const UsageError& error) {  // these four are the same on all ranks: none waits
    if (rank == 0) print_error(error.what());
    code = 2;
  } catch (const NothingSelected& error) {
    if (rank == 0) print_error(error.what());
    code = 4;
  } catch (const Unavailable& error) {
    if (rank == 0) print_error(error.what());
    code = error.code;
  } catch (const CollectivesRefused& error) {
    if (rank == 0 && options.collectives == "auto" && launched_by_tidemark())
      ask_again(error.what());
    else if (rank == 0)
      print(stderr, "error: {}: --collectives staged goes through the host's memory\n",
            error.what());
  } catch (const std::exception& error) {
    give_up(*link, first_line(error));
  }
  link.reset();
  if (!outlived && rank == 0 && !folder.empty()) remove_session(folder);
  return leave_with(code);
}

}  // namespace tidemark
