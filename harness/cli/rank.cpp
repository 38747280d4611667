#include <ATen/Context.h>
#include <ATen/Parallel.h>
#include <c10/util/Exception.h>
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

#include "harness/arithmetic.h"
#include "harness/bracket.h"
#include "harness/cli/commands.h"
#include "harness/cli/files.h"
#include "harness/cli/github.h"
#include "harness/cli/numbers.h"
#include "harness/cli/oom.h"
#include "harness/cli/prepare.h"
#include "harness/cli/salvage.h"
#include "harness/devices.h"
#include "harness/flight.h"
#include "harness/launch.h"
#include "harness/libraries.h"
#include "harness/parallel/live_communicators.h"
#include "harness/platform.h"
#include "harness/runner.h"
#include "harness/shared_gpu.h"
#include "harness/timing.h"
#include "harness/watchdog.h"
#include "reports/events/events.h"
#include "reports/json.h"
#include "reports/text.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using Clock = std::chrono::steady_clock;

constexpr int kLongestTrial = 60;  // s, of NCCL on a shared GPU; it takes seconds to connect

// A record travels as a report of one trial.
std::string pack(const TrialRecord& trial) { return json_text(Report{{}, {trial}}); }
TrialRecord unpack(const std::string& text) {
  return parse_report(text, "a rank's record").trials.at(0);
}

class Progress {
 public:
  explicit Progress(std::size_t count) : count_(count) {}
  void next() { ++trial_; }
  void operator()(const std::string& what) const {
    const double seconds = std::chrono::duration<double>(Clock::now() - start_).count();
    if (live_)
      fmt::print(stderr, "\r\033[K[{}/{}] {} ({:.1f} s)", trial_, count_, what, seconds);
    else if (what != last_)
      fmt::print(stderr, "[{}/{}] {} ({:.1f} s)\n", trial_, count_, what, seconds);
    last_ = what;
  }
  void done() const {
    if (live_) fmt::print(stderr, "\r\033[K");
  }

 private:
  std::size_t trial_ = 0, count_;
  mutable std::string last_;
  const bool live_ = isatty(STDERR_FILENO) != 0 || std::getenv("TIDEMARK_LIVE") != nullptr;
  Clock::time_point start_ = Clock::now();
};

TrialRecord run_planned(const PlannedTrial& planned, World& world, const Options& options,
                        const RunOptions& run_options) {
  const Codec codec{pack, unpack};
  auto record = run_trial(*planned.scenario, planned.trial, world, codec, run_options);
  const bool repeats = platform().kind() == "virtual" || platform().keeps_time();
  const std::string first = options.repetitions > 1 ? pack(record) : "";  // before this adds to it
  std::vector<StepTimes> times{step_times(record)};
  RunOptions repeated = run_options;
  repeated.numbers = nullptr;  // the first run's are written
  for (int again = 1; repeats && again < options.repetitions; ++again) {
    auto other = run_trial(*planned.scenario, planned.trial, world, codec, repeated);
    if (!world.leads()) continue;
    times.push_back(step_times(other));
    if (platform().kind() != "virtual") continue;
    Verdict verdict{
        .name = "parity/repetition", .variant = "all", .status = Status::pass, .unit = "reports"};
    verdict.formula = "a repeated trial leaves the same record, byte for byte";
    if (pack(other) != first) {
      verdict.status = Status::fail;
      verdict.why = fmt::format("repetition {} differs from the first run", again + 1);
    }
    record.verdicts.push_back(verdict);
  }
  if (platform().kind() != "virtual") add_timing(record, times);
  return record;
}

// Whether the scenario runs under lagging too, which is where memory is highest: in the same size,
// or loss curves in another.
bool lagging_stands_for(const PlannedTrial& one, const std::vector<PlannedTrial>& planned) {
  return one.trial.schedule != "lagging" &&
         std::ranges::any_of(planned, [&](const PlannedTrial& other) {
           const Trial &a = one.trial, &b = other.trial;
           return b.schedule == "lagging" && a.scenario == b.scenario &&
                  (a.size == "losses" || (a.size == b.size && a.mode == b.mode)) &&
                  other.unfit.empty();
         });
}

// Of a scenario's sizes the last, as suites name them: the most like real training; but not of
// "scale", whose steps take minutes.
bool draws_growth(const PlannedTrial& one, const std::vector<PlannedTrial>& planned) {
  const auto can = [&](const PlannedTrial& other) {
    return other.scenario == one.scenario && other.trial.schedule == "lagging" &&
           other.trial.size != "scale" && other.unfit.empty();
  };
  const auto last = std::find_if(planned.rbegin(), planned.rend(), can);
  return last != planned.rend() && &*last == &one;
}

// Every rank writes its own: together they may be larger than a report.
void save_events(const fs::path& folder, const TrialRecord& trial, const Variant& variant,
                 const RankRecord& record, const std::string& device) {
  const fs::path path = folder / "allocator" / trial_folder(trial);
  write_files(path, {{path_component(fmt::format("{}_rank{}", variant.name, record.rank)) + ".txt",
                      event_text(event_log(trial, variant.name, record, device))}});
}

Report run_all(const std::vector<PlannedTrial>& planned, World& world, const Options& options,
               RunRecord run, const fs::path& folder) {
  Report report{std::move(run), {}};
  Progress progress(planned.size());
  const auto start = Clock::now();
  std::optional<Checkpoint> checkpoint;
  if (world.leads()) checkpoint.emplace(session_folder(), report.run);
  const std::string device = report.run.device_kind + " " + report.run.profile;
  NumbersFiles numbers(folder, device, world.size());
  for (const auto& each : planned) {
    progress.next();
    const Trial& t = each.trial;
    if (!each.unfit.empty()) {
      report.trials.push_back(record_of(*each.scenario, t));
      report.trials.back().skipped = each.unfit;
      continue;
    }
    RunOptions run_options;
    run_options.selected = [&](const Variant& v) {
      return std::ranges::find(each.variants, v.name) != each.variants.end();
    };
    run_options.explain = [&](const Variant& v) {
      return save_out_of_memory(folder, t, v.name, world.rank());
    };
    if (options.events)
      run_options.events = [&](const Variant& variant, const RankRecord& record) {
        save_events(folder, record_of(*each.scenario, t), variant, record, device);
      };
    if (options.numbers)
      run_options.numbers = [&](const Variant& variant, const Numbers& mine, const Oracle& oracle) {
        numbers.save(record_of(*each.scenario, t), variant, world.rank(), mine, oracle);
      };
    const bool left_out = options.details == "none" || lagging_stands_for(each, planned);
    run_options.details = options.details == "all" ? Details::all
                          : left_out               ? Details::none
                                                   : Details::worst;
    run_options.progress = [&](const std::string& what) { progress(what); };
    // Six more runs of every variant: not for the sizes that take minutes each.
    if (t.schedule == "calibrated" && t.mode == Mode::shapes && each.capacity == 0)
      run_options.run_ahead = {0.5, 1, 2, 4, 8};
    run_options.growth = draws_growth(each, planned) && options.details != "none";
    if (checkpoint) checkpoint->begin(each);
    report.trials.push_back(run_planned(each, world, options, run_options));
    if (checkpoint) checkpoint->end(report.trials.back());
  }
  judge_brackets(report.trials);
  if (world.leads()) progress.done();
  report.run.duration_ns = (Clock::now() - start) / std::chrono::nanoseconds(1);
  return report;
}

// Makes (or moves) the link `latest` beside the folder. A convenience: where it cannot be made it
// is left out.
void link_latest(const fs::path& folder) {
  std::error_code ignored;
  const fs::path link = folder.parent_path() / "latest",
                 fresh = folder.parent_path() / ".latest.new";
  if (fs::exists(fs::symlink_status(link, ignored)) && !fs::is_symlink(link, ignored)) return;
  fs::remove(fresh, ignored);
  fs::create_directory_symlink(folder.filename(), fresh, ignored);
  fs::rename(fresh, link, ignored);
}

// The launching process has chosen and made the folder; under somebody else's launcher rank 0 does,
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

int write_and_print(const Report& report, const fs::path& folder, const Options& options) {
  write_all(folder, report);
  link_latest(folder);
  if (options.history) remember(folder, report);
  fmt::print("report: {}\n\n{}", fs::relative(folder / "report.html").string(),
             text_of(report, in_color(options)));
  tell_github(report);
  std::fflush(stdout);
  return report.exit_code();
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

// The virtual NCCL knows by itself who does not come. Other ranks that wait for this one give up
// before it does, and say more.
std::unique_ptr<Watchdog> watch(int rank, int timeout) {
  if (platform().kind() == "virtual") return nullptr;
  return std::make_unique<Watchdog>(
      Watchdog::Eyes{flight::beats, live_communicators::trouble},
      std::chrono::seconds(timeout + 30), [=](const std::string& trouble) {
        const std::string what =
            trouble.empty()
                ? fmt::format("has not got any further for {} s (--timeout)", timeout + 30)
                : trouble;
        const std::string here = flight::here();
        give_up(rank, what + (here.empty() ? "" : ": ") + here);
      });
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
      throw UsageError(fmt::format(
          "the launcher started {} ranks that this MPI cannot connect: use mpirun -n {}, "
          "or srun --mpi=pmix",
          said, said));
    const int ranks = options.request.ranks == 0 ? all.size() : options.request.ranks;
    const bool alone = options.stand_for >= 0;
    if (ranks > all.size() && !alone)
      throw UsageError(fmt::format("--ranks {}: the launcher started only {} (mpirun -n {})", ranks,
                                   all.size(), ranks));
    const auto [planned, note] = prepare(options, ranks);
    if (options.dry_run) {
      if (rank == 0) print_plan(planned);
      MPI_Finalize();
      return 0;
    }
    RunRecord run = describe_run(argc, argv);
    const fs::path folder = folder_of(options, run.id, all);
    if (rank == 0 && !launched_by_tidemark()) std::fputs(note.c_str(), stderr);
    flight::open(session_folder(), rank);
    at::set_num_threads(1);
    set_arithmetic();
    at::globalContext().lazyInitDevice(at::kCUDA);
    run.sharing = take_seat(all).sharing;
    if (alone) {
      run.sharing = fmt::format(
          "one process stands for rank {} of {}: memory alone, its collectives have no partners",
          options.stand_for, ranks);
    } else if (!run.sharing.empty()) {
      if (!collectives_are_staged()) {
        platform().begin(platform_schedules().front(), Mode::math);  // a rehearsal's bytes move
        require_collectives(all, std::min(options.timeout, kLongestTrial));
      }
    }
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
      auto watchdog = watch(rank, options.timeout);
      const Report report = run_all(planned, *world, options, run, folder);
      watchdog.reset();
      if (world->leads()) code = write_and_print(report, folder, options);
    }
    code = all.worst(code);
  } catch (const UsageError& error) {  // these three are the same on all ranks: nobody waits
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
