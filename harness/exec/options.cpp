#include "harness/exec/options.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <new>
#include <set>

#include "harness/device/linked_device.h"
#include "harness/errors.h"
#include "harness/exec/describe.h"
#include "harness/exec/job.h"
#include "harness/exec/project.h"
#include "harness/help.h"
#include "harness/memory/format/format.h"
#include "harness/print.h"
#include "harness/record/scan.h"
#include "harness/record/units.h"
#include "harness/virtual/device/setting_words.h"
#include "reports/folder.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

const std::set<std::string> kModes(kModeWords.begin(), kModeWords.end());
const std::set<std::string> kSchedules(kScheduleWords.begin(), kScheduleWords.end());

constexpr const char* kFooter =
    "examples:\n"
    "  tidemark exec -- python3 train.py\n"
    "  tidemark exec --gpu a100-40g --report DIR -- torchrun --nproc-per-node 2 train.py\n"
    "PROGRAM is any command that starts Python with a CUDA torch: python3 train.py, torchrun ..., "
    "accelerate launch ..., a script. A program that starts its own ranks needs no --ranks.\n"
    "exit codes: that of PROGRAM; 5 if PROGRAM ended well and a check failed; 2 usage or bad "
    "input; 3 infrastructure.\n"
    "If memory runs out: tidemark advise tries what would help, tidemark fit finds the largest "
    "batch.\n"
    "Every flag but --out and --force can also be given as an environment variable: --schedule as "
    "TIDEMARK_SCHEDULE.";

// The words after the flags are the program and its own arguments.
int parse(int argc, char** argv, ExecOptions& exec) {
  CLI::App app(
      "run a PyTorch program on the virtual platform, without a GPU: tidemark exec [flags] -- "
      "PROGRAM ARGUMENTS...",
      "tidemark exec");
  app.formatter(std::make_shared<Help>());
  app.prefix_command();
  app.footer(kFooter);
  app.add_option("--ranks", exec.ranks,
                 "number of processes to start, with the variables that torchrun sets")
      ->check(CLI::Range(1, 1024));
  app.add_option("--as-rank", exec.as_ranks,
                 "R[,R...]: start a process with the memory of rank R of --of W, without partners "
                 "(not in mode math)")
      ->delimiter(',');
  app.add_option("--of", exec.of, "number of ranks of the whole job")
      ->check(CLI::Range(1, 1 << 20));
  app.add_option(
         "--devices", exec.devices,
         "number of GPUs that a process sees (as many as the launcher has started processes on "
         "this machine, or 1)")
      ->check(CLI::Range(1, static_cast<int>(recorder::kDevices)));
  app.add_option("--gpu", exec.gpu, "profile of the virtual GPU, by name or file (h100-80g)");
  app.add_option("--capacity", exec.capacity,
                 "memory of a GPU that PyTorch can have, instead of what its profile leaves beside "
                 "CUDA's context and NCCL: bytes, or 6GiB, 80GB");
  app.add_option("--reserve", exec.reserve,
                 "memory of a GPU that PyTorch cannot have, in place of the profile's context and "
                 "NCCL: as in 1GiB, or 0");
  app.add_option(
         "--schedule", exec.schedules,
         "when the device works, as in tidemark run (calibrated); several, with commas: the "
         "program runs under each, and the report compares them")
      ->delimiter(',')
      ->check(CLI::IsMember(kSchedules));
  app.add_option("--alloc-conf", exec.alloc_conf,
                 "PyTorch's allocator settings (PYTORCH_ALLOC_CONF)");
  app.add_option(
         "--mode", exec.mode,
         "known: values that are known and small are computed, all others do not exist; math: "
         "PyTorch's CPU kernels compute everything; shapes: nothing is computed (known)")
      ->check(CLI::IsMember(kModes));
  app.add_option(
      "--known-limit", exec.known_limit,
      "mode known: largest floating-point tensor that is computed, as in 1MiB; for other "
      "types 64 times that (256KiB)");
  app.add_option(
      "--sizes", exec.sizes,
      "mode known: answers for sizes that depend on unknown values: balanced (topk, sort, argmax: "
      "every index equally often), N% (nonzero, masks: that part of the elements), or both with a "
      "comma");
  app.add_option("--races", exec.races, "on or off: race detection (off)")
      ->transform(CLI::Transformer(std::map<std::string, std::string>(kSwitchNumbers.begin(),
                                                                      kSwitchNumbers.end()))
                      .description(""))
      ->check(CLI::IsMember(std::set<std::string>(kSwitchWords.begin(), kSwitchWords.end())));
  app.add_option("--timeout", exec.timeout,
                 "seconds after which a rank stops waiting for another rank (300)")
      ->check(CLI::Range(1, kLongestTimeout));
  app.add_option("--max-peak", exec.max_peak,
                 "fails if a GPU has more bytes reserved at its peak, as in 75GiB");
  app.add_option(
         "--fits", exec.fits,
         "GPU[,GPU...]: fails if more is reserved at the peak than PyTorch can have on such "
         "a GPU, a profile by name or file")
      ->delimiter(',');
  app.add_flag("--no-growth", exec.wishes.no_growth,
               "fails if memory grows from step to step (needs --report)");
  app.add_flag("--no-races", exec.wishes.no_races, "fails if there is a race (needs --races on)");
  app.add_flag("--no-retries", exec.wishes.no_retries,
               "fails if the allocator had to free its cached memory and try again");
  app.add_option("--compare", exec.base,
                 "fails if a peak is higher than in this file of --out or folder of --report");
  app.add_option("--threshold", exec.threshold_texts,
                 "with --compare: how much higher a peak may be, as in memory=1% or "
                 "memory/reserved=20MiB (memory=0)");
  auto* report =
      app.add_option(
             "--report", exec.report,
             "write a page and a memory snapshot of every rank into this folder (without DIR: "
             "tidemark-out/<UTC time>-<id>), and print what is alive at the highest peak, by kind "
             "of tensor, module and Python line")
          ->type_name("[DIR]")
          ->expected(0, 1);
  app.add_flag("--force", exec.force, "let --report replace an earlier report, and --out a file");
  app.add_option("--color", exec.color, "auto, always or never (auto)")
      ->check(CLI::IsMember({"auto", "always", "never"}));
  app.add_option("--events", exec.events,
                 "all: --report keeps the events of every step, in files that grow with them (the "
                 "first steps, the last and the highest)")
      ->check(CLI::IsMember({"all"}));
  app.add_option("--out", exec.out, "write the figures to this file, as JSON");
  app.add_flag(
      "--room,!--no-room", exec.room,
      "a program that runs out of memory runs once more with room, until its steps repeat, "
      "and exec says what it needs (default)");
  group(&app, "Processes", {"--ranks", "--as-rank", "--of", "--devices", "--timeout"});
  group(&app, "The virtual GPU",
        {"--gpu", "--capacity", "--reserve", "--room", "--schedule", "--alloc-conf", "--races"});
  group(&app, "Values", {"--mode", "--known-limit", "--sizes"});
  group(&app, "Checks",
        {"--max-peak", "--fits", "--no-growth", "--no-races", "--no-retries", "--compare",
         "--threshold"});
  group(&app, "What is written", {"--report", "--events", "--out", "--force", "--color"});
  for (CLI::Option* one : app.get_options())  // --out is a folder of `tidemark run`
    if (!one->get_lnames().empty() && !one->check_lname("out") && !one->check_lname("force") &&
        !one->check_lname("help"))
      with_twin(one);
  try {
    app.parse(argc - 1, argv + 1);
    take_variables(app);
    for (const CLI::Option* one : app.get_options())  // from here on they are what the flags are
      if (!one->get_envname().empty()) unsetenv(one->get_envname().c_str());
  } catch (const CLI::Success& success) {
    app.exit(success);
    return 0;
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string("exec: ") + error.what() +
                     " (tidemark exec --help lists the flags)");
  }
  exec.own_folder = report->count() > 0 && exec.report.empty();
  exec.program = app.remaining();
  if (!exec.program.empty() && exec.program.front() == "--")
    exec.program.erase(exec.program.begin());
  return -1;
}

void check_sizes(const std::string& sizes) {
  const auto is_part = [](std::string_view text) {  // 50%, 12.5%
    if (!text.ends_with('%')) return false;
    Scan scan(text.substr(0, text.size() - 1));
    const std::string_view whole = scan.all_of(kDecimal);
    if (scan.done()) return whole == "100" || whole.size() == 1 || whole.size() == 2;
    return (whole.size() == 1 || whole.size() == 2) && scan.take(".") &&
           !scan.all_of(kDecimal).empty() && scan.done();
  };
  const std::size_t comma = sizes.find(',');
  const std::string first = sizes.substr(0, comma);
  const std::string second = comma == std::string::npos ? "" : sizes.substr(comma + 1);
  const bool alone = first == "balanced" || is_part(first);
  const bool both =
      (first == "balanced" && is_part(second)) || (is_part(first) && second == "balanced");
  if (!sizes.empty() && !(comma == std::string::npos ? alone : both))
    throw UsageError("exec: --sizes " + sizes +
                     ": expected balanced, N% (at most 100, as in 50%), or both (balanced,50%)");
}

// The project's setting counts for a flag that is not given.
void take_project_settings(ExecOptions& exec) {
  const auto project = project_settings(fs::current_path());
  if (!project) return;
  const auto take = [](std::string& flag, const std::string& setting) {
    if (flag.empty()) flag = setting;
  };
  take(exec.gpu, project->gpu);
  take(exec.capacity, project->capacity);
  take(exec.mode, project->mode);
  if (exec.schedules.empty() && !project->schedule.empty()) exec.schedules = {project->schedule};
  if (exec.timeout == 0) exec.timeout = project->timeout;
  print(stderr, "tidemark: {}: {}\n", project->file.string(), one_line(project->text()));
  if (!kModes.contains(exec.mode) && !exec.mode.empty())
    throw UsageError("exec: mode " + exec.mode + " is none of known, math, shapes");
  for (const std::string& one : exec.schedules)
    if (!kSchedules.contains(one))
      throw UsageError("exec: schedule " + one +
                       " is none of instant, calibrated, lagging, random");
}

/// The name of a program that starts ranks; empty: it is none.
std::string launcher_in(const std::vector<std::string>& program) {
  const std::string name = fs::path(program.front()).filename();
  for (const char* known : {"torchrun", "deepspeed", "mpirun", "mpiexec", "mpiexec.hydra", "srun"})
    if (name == known) return name;
  const auto is = [&](std::size_t at, const char* word) {
    return at < program.size() && program[at] == word;
  };
  if (name == "accelerate" && is(1, "launch")) return "accelerate launch";
  if (!name.starts_with("python")) return "";
  for (std::size_t at = 1; at < program.size() && program[at].starts_with("-"); ++at)
    for (const char* module : {"torch.distributed.run", "torch.distributed.launch",
                               "accelerate.commands.launch", "deepspeed.launcher.runner"})
      if (program[at] == "-m" && is(at + 1, module)) return module;
  return "";
}

void check(ExecOptions& exec) {
  if (exec.program.empty())
    throw UsageError("exec: no program is given: tidemark exec [flags] -- PROGRAM ARGUMENTS...");
  if (exec.program.front().starts_with("-"))
    throw UsageError("exec: " + exec.program.front() +
                     " is not a flag of exec (tidemark exec --help lists the flags)");
  if (std::getenv("TIDEMARK_EXEC") != nullptr)
    throw UsageError(
        "exec: this process was itself started by tidemark exec: start the program directly");
  take_project_settings(exec);
  if (exec.as_ranks.empty() != (exec.of == 0))
    throw UsageError("exec: --as-rank R needs --of W, and --of W needs --as-rank R");
  if (!exec.as_ranks.empty() && exec.ranks > 0)
    throw UsageError("exec: --ranks and --as-rank exclude each other: leave out one of the two");
  for (int rank : exec.as_ranks) {
    if (rank < 0 || rank >= exec.of)
      throw UsageError(
          fmt::format("exec: --as-rank {} of {}: ranks are 0 to {}", rank, exec.of, exec.of - 1));
  }
  if (std::set<int>(exec.as_ranks.begin(), exec.as_ranks.end()).size() != exec.as_ranks.size())
    throw UsageError("exec: --as-rank names a rank twice");
  if (exec.mode.empty()) exec.mode = "known";
  if (exec.schedules.empty()) exec.schedules = {"calibrated"};
  if (std::set<std::string>(exec.schedules.begin(), exec.schedules.end()).size() !=
      exec.schedules.size())
    throw UsageError("exec: --schedule names a schedule twice");
  if (exec.mode != "known" && !(exec.known_limit.empty() && exec.sizes.empty()))
    throw UsageError("exec: --known-limit and --sizes need --mode known");
  check_sizes(exec.sizes);
  if (!exec.as_ranks.empty() && exec.mode == "math")
    throw UsageError(
        "exec: --mode math needs all ranks, and --as-rank runs only some: leave out one of the "
        "two");
  if (const std::string launcher = launcher_in(exec.program);
      !launcher.empty() && (exec.ranks > 0 || !exec.as_ranks.empty()))
    throw UsageError(fmt::format(
        "exec: {} starts ranks of its own, and {} would start it once for each rank: leave out {}",
        launcher, exec.ranks > 0 ? "--ranks" : "--as-rank", exec.ranks > 0 ? "--ranks" : launcher));
  if (exec.wishes.no_races && exec.races != "on")
    throw UsageError("exec: --no-races needs --races on");
  if (exec.wishes.no_growth && exec.report.empty() && !exec.own_folder)
    throw UsageError("exec: --no-growth needs --report, which keeps the events of every step");
  const auto bytes_of = [](const char* flag, const std::string& text) {
    const auto bytes = parse_bytes(text);
    if (!bytes) throw UsageError("exec: " + not_bytes(flag, text));
    return *bytes;
  };
  if (!exec.max_peak.empty()) exec.wishes.max_peak = bytes_of("--max-peak", exec.max_peak);
  if (!exec.known_limit.empty()) {
    constexpr std::int64_t kLeast = 4096;
    const std::int64_t limit = bytes_of("--known-limit", exec.known_limit);
    if (limit < kLeast)
      throw UsageError(
          "exec: --known-limit " + exec.known_limit +
          " is too small: give at least 4KiB, so that scales, flags and steps are computed");
    exec.known_limit = std::to_string(limit);
  }
  for (const std::string& gpu : exec.fits) exec.wishes.fits.push_back(capacity_of(gpu));
  if (!exec.fits.empty() && exec.gpu.empty()) check_linked_settings("h100-80g", "");  // as before
  if (!exec.capacity.empty()) exec.capacity = std::to_string(bytes_of("--capacity", exec.capacity));
  if (const std::string wrong = check_linked_settings(exec.gpu, exec.capacity); !wrong.empty())
    throw UsageError("exec: " + wrong);
  if (!exec.reserve.empty()) {
    const auto bytes = parse_bytes_or_zero(exec.reserve);
    if (!bytes) throw UsageError("exec: " + not_bytes("--reserve", exec.reserve));
    if (const std::string wrong = set_linked_reserve(*bytes); !wrong.empty())
      throw UsageError("exec: --reserve " + exec.reserve + ": " + wrong);
    exec.reserve = std::to_string(*bytes);
  }
  if (!exec.threshold_texts.empty() && exec.base.empty())
    throw UsageError("exec: --threshold needs --compare BASE");
  try {
    for (const std::string& text : exec.threshold_texts)
      exec.thresholds.push_back(parse_threshold(text));
  } catch (const std::runtime_error& error) {
    throw UsageError(std::string("exec: ") + error.what());
  }
  if (exec.own_folder) exec.report = default_folder(exec_id());
  if (!exec.events.empty() && exec.report.empty())
    throw UsageError("exec: --events needs --report DIR");
  if (!exec.report.empty()) exec.report = fs::absolute(exec.report);
}

// True if the folder is empty; folders that processes of one job make when they begin do not count.
bool is_free(const fs::path& folder, bool in_job) {
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename();
    if (!in_job || (name != kJobFolder && !name.starts_with(std::string(".") + kJobFolder)))
      return false;
  }
  if (error == std::errc::not_enough_memory) throw std::bad_alloc();
  return !error;
}

}  // namespace

std::vector<std::string> ExecOptions::of_advise() const {
  std::vector<std::string> words;
  const auto add = [&](const char* flag, const std::string& value) {
    if (!value.empty()) words.insert(words.end(), {flag, value});
  };
  const auto in_mib = [](const std::string& text) {
    const auto bytes = parse_bytes(text);
    return bytes && *bytes % (1 << 20) == 0 ? fmt::format("{}MiB", *bytes >> 20) : text;
  };
  add("--capacity", in_mib(capacity));
  add("--reserve", in_mib(reserve));
  if (ranks > 0) add("--ranks", std::to_string(ranks));
  add("--as-rank", fmt::format("{}", fmt::join(as_ranks, ",")));
  if (of > 0) add("--of", std::to_string(of));
  if (devices > 0) add("--devices", std::to_string(devices));
  if (schedules.front() != "calibrated") add("--schedule", schedules.front());
  add("--alloc-conf", alloc_conf);
  if (mode != "known") add("--mode", mode);
  add("--sizes", sizes);
  add("--known-limit", known_limit);
  return words;
}

int parse_exec(int argc, char** argv, ExecOptions& exec) {
  const int code = parse(argc, argv, exec);
  if (code < 0) check(exec);
  return code;
}

void check_launched(const ExecOptions& exec, const Launcher& launcher) {
  if (exec.ranks > 0)
    throw UsageError(fmt::format(
        "exec: --ranks {} under {}, which has started {} processes already: leave out --ranks, or "
        "start tidemark exec once",
        exec.ranks, launcher.name, launcher.size));
  if (exec.own_folder)
    throw UsageError(fmt::format(
        "exec: --report under {} needs a folder, which its {} processes share: --report DIR",
        launcher.name, launcher.size));
  if (!exec.base.empty() && exec.report.empty() && exec.out.empty())
    throw UsageError(fmt::format(
        "exec: --compare under {} takes the peaks of its {} processes together: add --out FILE or "
        "--report DIR, where all of them can write",
        launcher.name, launcher.size));
}

void check_places(const ExecOptions& exec, bool in_job) {
  if (!exec.out.empty()) {
    if (fs::exists(exec.out) && !(exec.force && fs::is_regular_file(exec.out)))
      throw UsageError("exec: --out " + exec.out +
                       " exists already: name another file, or --force to replace it");
    const fs::path folder = fs::absolute(exec.out).parent_path();
    if (access(folder.c_str(), W_OK | X_OK) != 0)
      throw UsageError("exec: --out " + exec.out + " cannot be written");
  }
  if (exec.report.empty()) return;
  std::error_code error;
  fs::create_directories(exec.report, error);
  if (!error && is_free(exec.report, in_job)) return;
  const std::string why = !fs::is_directory(exec.report, error) ? "it is no folder"
                          : exec.force                          ? irreplaceable(exec.report)
                                       : "give --force to replace a report";
  if (!why.empty())
    throw UsageError("exec: --report " + exec.report +
                     " is not an empty folder and cannot be created: name another (" + why + ")");
  if (in_job) empty_folder(exec.report, kJobFolder);
}

}  // namespace tidemark
