#include "harness/cli/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <set>

#include "harness/cli/commands.h"
#include "harness/cli/files.h"
#include "harness/cli/suggest.h"
#include "harness/help.h"
#include "harness/print.h"
#include "harness/ranks/submitted.h"
#include "harness/record/units.h"
#include "harness/virtual/device/setting_words.h"
#include "reference/memory/placement.h"

namespace tidemark {
namespace {

const std::string kCodesOfRun =
    "0 all verdicts pass, 1 a verdict failed, 2 usage or bad input, 3 infrastructure, 4 nothing "
    "selected, 77 no such device, 130 interrupted";

template <typename Value>
CLI::Option* flag(CLI::App* app, const std::string& name, Value& value, const std::string& what) {
  return with_twin(app->add_option("--" + name, value, what))->capture_default_str();
}

void add_platform_flags(CLI::App* app, Options& options) {
  flag(app, "device", options.device, "auto, virtual or cuda");
  flag(app, "gpu", options.gpu,
       "profile of the virtual GPU (h100-80g, h200-141g, a100-80g, a100-40g, b200-180g, b300-268g, "
       "rtx5090-32g, rtx4090-24g, l40s-48g, l4-24g, a6000-48g, t4-16g or a JSON file)");
  flag(app, "capacity", options.capacity,
       "memory of the virtual GPU that PyTorch can have, instead of what its profile leaves beside "
       "CUDA's context and NCCL: bytes, or 6GiB, 512MiB, 80GB");
  flag(app, "collectives", options.collectives,
       "NCCL for ranks that share a GPU: nccl (NVIDIA's), staged (tidemark's, through the host's "
       "memory), or auto (staged if NVIDIA's refuses to share)");
  flag(app, "alloc-conf", options.alloc_conf, "PyTorch's allocator settings (PYTORCH_ALLOC_CONF)");
}

CLI::Option* add_set(CLI::App* app, Request& request) {
  return with_twin(app->add_option("--set", request.set,
                                   "KEY=VALUE: another value for a parameter (`tidemark list "
                                   "SCENARIO` names them)"))
      ->delimiter(',');
}

void add_as_rank(CLI::App* app, Options& options) {
  with_twin(app->add_option("--as-rank", options.as_rank,
                            "run one process with the memory of this rank of --ranks; its "
                            "collectives have no partners, so nothing is computed (mode shapes)"))
      ->check(CLI::Range(0, 1023));
}

void add_bench(CLI::App& app, Options& options) {
  auto* bench = app.add_subcommand(
      "bench",
      "measure the pairs with Google Benchmark: peaks, savings, collectives and the device's time "
      "of a step, each baseline before its fixes");
  bench->allow_extras();
  auto& request = options.request;
  flag(bench, "size", request.size, "a size by name (default: seed)");
  add_set(bench, request);
  flag(bench, "ranks", request.ranks,
       "number of ranks (0: as many as the launcher started, else 4)");
  add_as_rank(bench, options);
  flag(bench, "steps", request.steps,
       "steps after which memory is read (0: as tidemark run, 4, and 2 at size scale)");
  flag(bench, "seed", request.seed, "seed of the random parameters and inputs");
  flag(bench, "mode", request.mode, "math or shapes (default: shapes)");
  flag(bench, "schedule", request.schedule,
       "when the device works while memory is measured: instant, calibrated, lagging or all "
       "(default: lagging). Time is that of calibrated, of a GPU that of device");
  bench->add_flag("--controls", options.controls, "measure controls, too");
  bench->add_flag("--self", options.self,
                  "measure tidemark itself: operators, the start, steps, a step of 70B");
  flag(bench, "timeout", options.timeout, "seconds after which a rank stops waiting for another")
      ->check(CLI::Range(1, kLongestTimeout));
  add_platform_flags(bench, options);
  group(bench, "What runs",
        {"--size", "--set", "--ranks", "--as-rank", "--steps", "--seed", "--mode", "--schedule",
         "--controls", "--self"});
  group(bench, "On which device",
        {"--device", "--gpu", "--capacity", "--collectives", "--alloc-conf", "--timeout"});
  bench->footer(
      "Flags of Google Benchmark:\n"
      "  --benchmark_list_tests={true|false}\n"
      "  --benchmark_filter=REGEX\n"
      "  --benchmark_min_time=SECONDS\n"
      "  --benchmark_repetitions=N\n"
      "  --benchmark_enable_random_interleaving={true|false}\n"
      "  --benchmark_report_aggregates_only={true|false}\n"
      "  --benchmark_format={console|json|csv}\n"
      "  --benchmark_out=FILE\n"
      "  --benchmark_out_format={json|console|csv}\n"
      "  --benchmark_color={auto|true|false}\n"
      "  --benchmark_counters_tabular={true|false}\n"
      "  --benchmark_context=KEY=VALUE,...\n"
      "  --benchmark_time_unit={ns|us|ms|s}\n"
      "Without a launcher one process stands for rank 0 (--as-rank); mpirun -n N tidemark bench "
      "runs N ranks.\n"
      "examples:\n"
      "  tidemark bench --benchmark_filter='fsdp_prefetch|stash'\n"
      "  tidemark bench --benchmark_format=json > A.json; tidemark compare A.json B.json\n"
      "exit codes: 0 measured, 2 usage or bad input, 3 infrastructure, or a row ended in an error, "
      "4 no benchmark matches, 77 no such device");
}

}  // namespace

namespace {

/// Trials of a run with files or times of their own cannot be taken over by another.
void check_resumable(const Options& options) {
  const auto refuse = [](const std::string& flag) {
    throw UsageError("--resume: a run with " + flag + " cannot be resumed");
  };
  if (options.force)
    throw UsageError("--resume and --force exclude each other: leave out one of the two");
  if (options.events) refuse("--events");
  if (options.numbers) refuse("--numbers");
  if (options.repetitions > 1) refuse("--repetitions");
  if (!options.executor.empty()) refuse("--executor");
}

}  // namespace

Options parse_options(int argc, char** argv, int& exit_code) {
  Options options;
  CLI::App app(
      "tidemark measures the peak GPU memory of parallel training steps; no GPU is needed. It runs "
      "pairs of the same step, wasteful and corrected: their numbers must be equal, and their "
      "memory must differ by what a formula says.",
      "tidemark");
  app.formatter(std::make_shared<Help>());
  app.set_version_flag("-V,--version", version_text);
  app.require_subcommand(0, 1);

  auto* list = app.add_subcommand(
      "list", "print scenarios, variants with roles, sizes with parameters, and formulas");
  list->add_option("scenario", options.names, "names or globs of scenarios (default: all)");
  list->add_flag("--json", options.json, "print JSON");
  list->add_flag("--markdown", options.markdown, "print the table of README.md");
  list->footer(
      "example: tidemark list fsdp_prefetch\nexit codes: 0 printed, 2 usage or bad input, 4 no "
      "scenario has such a name");

  auto* run = app.add_subcommand(
      "run",
      "run the trials that match scenario[/variant[/size]], judge them, and write the report");
  run->footer(
      "examples:\n"
      "  tidemark run fsdp_prefetch/stash --size seed --ranks 2\n"
      "  tidemark run 'fsdp_prefetch/*' --set layers=7 --set hidden=384 --ranks 3\n"
      "exit codes: " +
      kCodesOfRun +
      "\nEvery flag can also be given as an environment variable: --schedule as "
      "TIDEMARK_SCHEDULE.");
  auto& request = options.request;
  run->add_option("pattern", request.patterns,
                  "scenario[/variant[/size]]; * and ? match any text and any character");
  flag(run, "suite", request.suite, "smoke, nightly or scale");
  flag(run, "size", request.size, "a size by name, instead of the sizes of the suite");
  add_set(run, request);
  flag(run, "ranks", request.ranks, "number of ranks (0: as many as the launcher started, else 4)");
  add_as_rank(run, options);
  flag(run, "steps", request.steps,
       "number of training steps (0: 4, and 2 at size scale; in the smoke suite 3, and 2 at size "
       "seed; in the nightly suite 100 for losses)");
  flag(run, "seed", request.seed, "seed of the random parameters and inputs");
  flag(run, "mode", request.mode,
       "math (computes numbers) or shapes (memory alone); default: the first mode of the size");
  flag(run, "schedule", request.schedule,
       "when the device works: instant, calibrated, lagging, all of these three, or random "
       "(durations drawn from the seed). Default: all; at size seed of the smoke suite lagging "
       "alone. On a GPU: device (its own time), instant and lagging (the host enforces them)");
  flag(run, "races", options.races, "on or off: race detection on the virtual device")
      ->transform(CLI::Transformer(std::map<std::string, std::string>(kSwitchNumbers.begin(),
                                                                      kSwitchNumbers.end()))
                      .description(""))
      ->check(CLI::IsMember(std::set<std::string>(kSwitchWords.begin(), kSwitchWords.end())));
  flag(run, "details", options.details,
       "segments, streams and snapshots to keep. worst: those of the rank with the highest peak "
       "and of ranks with races, under lagging if it is among the schedules; all: of every rank "
       "and schedule; none")
      ->check(CLI::IsMember({"none", "worst", "all"}));
  flag(run, "out", options.out, "output folder (default tidemark-out/<UTC time>-<id>)")
      ->check([](const std::string& folder) {
        return folder.empty() ? "is empty; name a folder, or leave --out out" : std::string();
      });
  run->add_flag("--force", options.force, "let --out replace an earlier report");
  flag(run, "timeout", options.timeout, "seconds after which a rank stops waiting for another rank")
      ->check(CLI::Range(1, kLongestTimeout));
  flag(run, "repetitions", options.repetitions,
       "how often each trial runs. On the virtual device all runs must agree; on a GPU the step "
       "times are the median of all runs")
      ->check(CLI::Range(1, 1000));
  with_twin(run->add_option("--executor", options.executor,
                            "run each trial as a job: slurm, or local (this machine, as many at "
                            "once as it has processors for); needs the Python package submitit"))
      ->check(CLI::IsMember({"local", "slurm"}));
  with_twin(run->add_option("--executor-option", options.executor_options,
                            "NAME=VALUE: a parameter of submitit (slurm_partition=gpu, "
                            "timeout_min=60); may be given several times"))
      ->allow_extra_args(false)
      ->check(wrong_parameter);
  flag(run, "color", options.color, "auto, always or never")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  with_twin(run->add_option("--history", options.history,
                            "on or off: add the run to history.sqlite, beside its folder"));
  with_twin(
      run->add_flag("--events", options.events,
                    "write every event of the allocator to allocator/, for compare --events"));
  with_twin(
      run->add_flag("--numbers", options.numbers,
                    "write losses, gradients of step 0 and parameters at the end, to the bit, to "
                    "numbers/ (safetensors), for compare --numbers"));
  with_twin(run->add_option("--resume", options.resume,
                            "the folder of a run that ended early: the trials that it has finished "
                            "are taken over, if arguments, software and device are the same"));
  with_twin(run->add_flag(
      "--require-all", options.require_all,
      "count a skipped trial (one that does not fit the number of ranks) as a failure"));
  with_twin(run->add_flag(
      "--dry-run", options.dry_run,
      "print which trials would run, which would be skipped, and the estimated time"));
  add_platform_flags(run, options);
  group(run, "What runs",
        {"--suite", "--size", "--set", "--ranks", "--as-rank", "--steps", "--seed", "--mode",
         "--schedule", "--repetitions", "--resume", "--dry-run"});
  group(run, "On which device",
        {"--device", "--gpu", "--capacity", "--collectives", "--alloc-conf", "--executor",
         "--executor-option", "--timeout"});
  group(run, "What is kept and judged",
        {"--out", "--force", "--details", "--events", "--numbers", "--history", "--races",
         "--require-all", "--color"});

  add_bench(app, options);

  add_program_commands(app);

  add_file_commands(app, options.act);
  add_snapshot_replay(app, options.act);
  add_what_if(app, options.act);
  app.footer("exit codes of run: " + kCodesOfRun +  // after the commands, which would take it over
             ". The help of every other command names its own exit codes.");

  exit_code = parse_line(app, argc, argv);
  if (exit_code >= 0) return options;
  if (app.get_subcommands().empty()) {
    print_text(stdout, app.help());
    exit_code = 0;
    return options;
  }
  CLI::App* chosen = &app;
  while (!chosen->get_subcommands().empty()) chosen = chosen->get_subcommands().front();
  options.command = chosen->get_name();
  // Commands share their options' values, and CLI11 reads the environment for every command: what
  // this command was given is set again.
  for (CLI::Option* one : chosen->get_options())
    if (one->count() > 0 && !one->get_envname().empty()) one->run_callback();
  if (const char* placement = std::getenv("TIDEMARK_PLACEMENT")) {
    try {
      reference::placement_named(placement);
    } catch (const std::invalid_argument& error) {
      throw UsageError(error.what());
    }
  }
  if (!options.capacity.empty()) {
    const auto bytes = parse_bytes(options.capacity);
    if (!bytes) throw UsageError(not_bytes("--capacity", options.capacity));
    options.capacity = std::to_string(*bytes);
    setenv("TIDEMARK_CAPACITY", options.capacity.c_str(), 1);  // the device knows bytes alone
  }
  if (!options.resume.empty()) check_resumable(options);
  options.library = chosen->remaining();
  return options;
}

}  // namespace tidemark
