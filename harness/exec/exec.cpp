#include "harness/exec/exec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <thread>

#include "harness/device/linked_device.h"
#include "harness/errors.h"
#include "harness/exec/alive.h"
#include "harness/exec/compare.h"
#include "harness/exec/page.h"
#include "harness/exec/processes.h"
#include "harness/exec/program.h"
#include "harness/exec/report.h"
#include "reports/units.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

struct Exec {
  std::vector<std::string> program;
  int ranks = 0, devices = 0, timeout = 0;
  std::vector<int> as_ranks;
  int of = 0;
  std::string gpu, capacity, schedule, alloc_conf, mode, known_limit, sizes, races, max_peak, out,
      report, base;
  std::vector<std::string> thresholds;
  Wishes wishes;
};

constexpr const char* kFooter =
    "PROGRAM is anything that starts Python with a CUDA torch: python3 train.py, torchrun ..., "
    "accelerate launch ..., a script. A program that starts its own ranks needs no --ranks.\n"
    "exit codes: those of PROGRAM; 1 where a wanted verdict fails; 2 usage or bad input; 3 "
    "infrastructure.";

// What is left after the flags is the program, with flags of its own.
int parse(int argc, char** argv, Exec& exec) {
  CLI::App app(
      "a PyTorch program on the virtual platform, without a GPU: tidemark exec [flags] -- PROGRAM "
      "ARGUMENTS...",
      "tidemark exec");
  app.prefix_command();
  app.footer(kFooter);
  app.add_option("--ranks", exec.ranks,
                 "start so many processes, with the variables that torchrun sets")
      ->check(CLI::Range(1, 1024));
  app.add_option(
         "--as-rank", exec.as_ranks,
         "R[,R...] of --of W: a process with the memory of rank R, without partners (no mode math)")
      ->delimiter(',');
  app.add_option("--of", exec.of, "how many ranks there would be")->check(CLI::Range(1, 1 << 20));
  app.add_option("--devices", exec.devices,
                 "GPUs that a process sees (as many as its machine's ranks, or 1)")
      ->check(CLI::Range(1, 64));
  app.add_option("--gpu", exec.gpu, "profile of the virtual GPU, by name or file (h100-80g)");
  app.add_option("--capacity", exec.capacity,
                 "of a GPU, instead of its profile's: bytes, or as in 6GiB, 80GB");
  app.add_option("--schedule", exec.schedule, "how far the device is behind the host (calibrated)")
      ->check(CLI::IsMember({"instant", "calibrated", "lagging", "random"}));
  app.add_option("--alloc-conf", exec.alloc_conf,
                 "PyTorch's allocator settings (PYTORCH_ALLOC_CONF)");
  app.add_option(
         "--mode", exec.mode,
         "known: what is known and small is computed, the rest has no values; math: PyTorch's "
         "CPU kernels compute everything; shapes: no numbers (known)")
      ->check(CLI::IsMember({"known", "math", "shapes"}));
  app.add_option("--known-limit", exec.known_limit,
                 "mode known: floating-point tensors up to this size are computed, others up to 64 "
                 "times that, as in 1MiB (256KiB)");
  app.add_option(
      "--sizes", exec.sizes,
      "mode known: sizes that depend on values which are not known; balanced (topk, sort, "
      "argmax: every index equally often), N% (nonzero, masks: that part), or both with a "
      "comma");
  app.add_option("--races", exec.races, "on or off: race detection (off)")
      ->check(CLI::IsMember({"on", "off"}));
  app.add_option("--timeout", exec.timeout,
                 "seconds after which a rank that waits for another gives up (300)")
      ->check(CLI::Range(1, 86400));
  app.add_option("--max-peak", exec.max_peak,
                 "exit code 1 where a GPU has more bytes allocated at its peak, as in 75GiB");
  app.add_flag("--no-races", exec.wishes.no_races,
               "exit code 1 where there is a race (with --races on)");
  app.add_flag("--no-retries", exec.wishes.no_retries,
               "exit code 1 where the allocator had to free its cached memory and try again");
  app.add_option("--compare", exec.base,
                 "exit code 1 where a peak is higher than in this report of --out");
  app.add_option("--threshold", exec.thresholds,
                 "with --compare: how much higher a peak may be, as in memory=1% or "
                 "memory/reserved=20MiB (memory=0)");
  app.add_option("--report", exec.report,
                 "write a page and every rank's memory snapshot into this folder, and say what is "
                 "alive at the highest peak by kind of tensor, module and Python line");
  app.add_option("--out", exec.out, "write the report to this file, as JSON");
  try {
    app.parse(argc - 1, argv + 1);
  } catch (const CLI::Success& success) {
    app.exit(success);
    return 0;
  } catch (const CLI::ParseError& error) {
    throw UsageError(std::string("exec: ") + error.what() +
                     " (tidemark exec --help says what there is)");
  }
  exec.program = app.remaining();
  if (!exec.program.empty() && exec.program.front() == "--")
    exec.program.erase(exec.program.begin());
  return -1;
}

void check_sizes(const std::string& sizes) {
  static const std::regex form("(balanced|\\d+(\\.\\d+)?%)(,(balanced|\\d+(\\.\\d+)?%))?");
  if (!sizes.empty() && !std::regex_match(sizes, form))
    throw UsageError("exec: --sizes " + sizes + ": balanced, N% (50%), or both (balanced,50%)");
}

void check(Exec& exec) {
  if (exec.program.empty())
    throw UsageError("exec: which program? (tidemark exec [flags] -- PROGRAM ARGUMENTS...)");
  if (exec.program.front().starts_with("-"))
    throw UsageError("exec: " + exec.program.front() +
                     " is no flag of exec (tidemark exec --help says what there is)");
  if (std::getenv("TIDEMARK_EXEC") != nullptr)
    throw UsageError(
        "exec: this process is below a tidemark exec already: start the program itself");
  if (exec.as_ranks.empty() != (exec.of == 0))
    throw UsageError("exec: --as-rank R and --of W belong together");
  if (!exec.as_ranks.empty() && exec.ranks > 0)
    throw UsageError("exec: --ranks starts ranks, and --as-rank stands for some: give one of them");
  for (int rank : exec.as_ranks) {
    if (rank < 0 || rank >= exec.of)
      throw UsageError(
          fmt::format("exec: --as-rank {} of {}: ranks are 0 to {}", rank, exec.of, exec.of - 1));
  }
  if (std::set<int>(exec.as_ranks.begin(), exec.as_ranks.end()).size() != exec.as_ranks.size())
    throw UsageError("exec: --as-rank names a rank twice");
  if (exec.mode.empty()) exec.mode = "known";
  if (exec.mode != "known" && !(exec.known_limit.empty() && exec.sizes.empty()))
    throw UsageError("exec: --known-limit and --sizes belong to --mode known");
  check_sizes(exec.sizes);
  if (!exec.as_ranks.empty() && exec.mode == "math")
    throw UsageError(
        "exec: --mode math needs all ranks, and with --as-rank the others are absent: leave it "
        "out");
  if (exec.wishes.no_races && exec.races != "on")
    throw UsageError("exec: --no-races needs --races on");
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
      throw UsageError("exec: --known-limit " + exec.known_limit +
                       ": at least 4KiB, so that scales, flags and steps are computed");
    exec.known_limit = std::to_string(limit);
  }
  if (!exec.capacity.empty()) exec.capacity = std::to_string(bytes_of("--capacity", exec.capacity));
  if (const std::string wrong = check_linked_settings(exec.gpu, exec.capacity); !wrong.empty())
    throw UsageError("exec: " + wrong);
  if (!exec.out.empty() && fs::exists(exec.out))
    throw UsageError("exec: --out " + exec.out + " exists already: name another file");
  if (!exec.out.empty() && !std::ofstream(exec.out))
    throw UsageError("exec: --out " + exec.out + " cannot be written");
  if (!exec.thresholds.empty() && exec.base.empty())
    throw UsageError("exec: --threshold belongs to --compare BASE");
  if (exec.report.empty()) return;
  std::error_code error;
  fs::create_directories(exec.report, error);
  if (error || !fs::is_empty(exec.report, error) || error)
    throw UsageError("exec: --report " + exec.report +
                     " is no empty folder and cannot be made one: name another");
  exec.report = fs::absolute(exec.report);
}

void set(const char* name, const std::string& value) {
  if (!value.empty()) setenv(name, value.c_str(), 1);
}

void put_before(const char* name, const std::string& value) {
  const char* old = std::getenv(name);
  set(name, old == nullptr || *old == 0 ? value : value + ":" + old);
}

// A shell script and its like start the Python that a shell finds, if any.
Libraries libraries_of(const fs::path& program) {
  if (const auto python = python_of(program)) return libraries_for(*python, linked_folder());
  try {
    return libraries_for(find_program("python3"), linked_folder());
  } catch (const UsageError&) {
    return own_libraries(linked_folder());
  }
}

// What all processes of the program inherit.
void set_environment(const Exec& exec, const Libraries& libraries, const fs::path& records) {
  const fs::path folder = linked_folder();
  std::vector<std::string> preloaded(libraries.preloaded.begin(), libraries.preloaded.end());
  put_before("LD_PRELOAD", fmt::format("{}", fmt::join(preloaded, ":")));
  put_before("PYTHONPATH", folder / "python");
  set("TRITON_LIBCUDA_PATH", folder);
  set("TIDEMARK_EXEC", records);
  set("TIDEMARK_EXEC_LAYER", libraries.layer);
  set("TIDEMARK_EXEC_TORCH", libraries.torch);
  set("TIDEMARK_EXEC_SNAPSHOTS", exec.report);
  set("TIDEMARK_MODE", exec.mode);
  set("TIDEMARK_KNOWN_LIMIT", exec.known_limit);
  set("TIDEMARK_SIZES", exec.sizes);
  set("TIDEMARK_GPU", exec.gpu);
  set("TIDEMARK_CAPACITY", exec.capacity);
  set("TIDEMARK_SCHEDULE", exec.schedule);
  set("PYTORCH_ALLOC_CONF", exec.alloc_conf);
  if (!exec.races.empty()) set("TIDEMARK_RACES", exec.races == "on" ? "1" : "0");
  if (exec.timeout > 0) set("TIDEMARK_TIMEOUT", std::to_string(exec.timeout));
  if (exec.devices > 0) set("TIDEMARK_DEVICES", std::to_string(exec.devices));
}

std::string free_port() {
  const int probe = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof address;
  if (bind(probe, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      getsockname(probe, reinterpret_cast<sockaddr*>(&address), &size) != 0)
    throw UsageError("exec: no free port on this machine");
  close(probe);
  return std::to_string(ntohs(address.sin_port));
}

// `notes` is the folder of python/tidemark_partners.py.
std::vector<Start> starts(const Exec& exec, const fs::path& program, const fs::path& notes) {
  std::vector<std::string> argv = exec.program;
  argv.front() = program;
  if (exec.ranks == 0 && exec.as_ranks.empty()) return {{exec.program.front(), argv, {}}};
  const bool absent = !exec.as_ranks.empty();
  const int here = absent ? 1 : exec.ranks;
  const std::string port = free_port();
  std::vector<Start> all;
  for (int i = 0; i < (absent ? static_cast<int>(exec.as_ranks.size()) : exec.ranks); ++i) {
    const int rank = absent ? exec.as_ranks[static_cast<std::size_t>(i)] : i;
    Start& one = all.emplace_back(Start{fmt::format("rank {}", rank), argv, {}});
    one.environment = {{"RANK", std::to_string(rank)},
                       {"WORLD_SIZE", std::to_string(absent ? exec.of : exec.ranks)},
                       {"LOCAL_RANK", std::to_string(absent ? 0 : i)},
                       {"LOCAL_WORLD_SIZE", std::to_string(here)},
                       {"GROUP_RANK", std::to_string(absent ? rank : 0)},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", port}};
    if (absent)
      one.environment.insert(
          {{"TIDEMARK_NCCL_ALONE", "1"},
           {"TIDEMARK_EXEC_ALONE", std::to_string(rank)},
           {"TIDEMARK_EXEC_PARTNERS", notes},
           {"TIDEMARK_EXEC_PRESENT", fmt::format("{}", fmt::join(exec.as_ranks, ","))}});
  }
  return all;
}

void write_report(const Exec& exec, const std::vector<json>& records,
                  const std::vector<std::string>& failed, int code) {
  const json report = {{"schema", "tidemark/exec"}, {"schema_version", "1.0"},
                       {"program", exec.program},   {"exit_code", code},
                       {"mode", exec.mode},         {"gpu", linked_profile()},
                       {"ranks", records},          {"failures", failed}};
  std::ofstream file(exec.out);
  file << report.dump(1) << "\n";
  if (!file.flush())
    std::fprintf(stderr, "tidemark: --out %s cannot be written\n", exec.out.c_str());
}

void write_page(const Exec& exec, const std::vector<json>& records,
                const std::vector<std::string>& failed, int code) {
  const HighestPeak peak = highest_peak(exec.report);
  std::fputs(alive_text(peak).c_str(), stderr);
  const std::string page =
      program_page({exec.program, exec.mode, linked_profile(), code, records, failed, peak});
  write_files(exec.report, {{"report.html", page}}, "name another folder (--report)");
  std::fprintf(stderr, "report: %s\n", (fs::path(exec.report) / "report.html").c_str());
}

/// A folder that is removed at the end.
struct Session {
  fs::path folder;
  Session() {
    std::string name = fs::temp_directory_path() / "tidemark-exec-XXXXXX";
    if (mkdtemp(name.data()) == nullptr)
      throw UsageError("exec: no folder can be made in " + fs::temp_directory_path().string());
    folder = name;
  }
  ~Session() {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
};

}  // namespace

int exec_program(int argc, char** argv) {
  Exec exec;
  if (const int code = parse(argc, argv, exec); code >= 0) return code;
  check(exec);
  std::vector<Threshold> thresholds;
  try {
    for (const std::string& text : exec.thresholds) thresholds.push_back(parse_threshold(text));
  } catch (const std::runtime_error& error) {
    throw UsageError(std::string("exec: ") + error.what());
  }
  const json base = exec.base.empty() ? json() : read_base(exec.base);
  const fs::path program = find_program(exec.program.front());
  const Libraries libraries = libraries_of(program);
  const Session session;
  set_environment(exec, libraries, session.folder);

  const fs::path notes = session.folder / "partners";
  fs::create_directory(notes);
  const std::vector<Start> all = starts(exec, program, notes);
  const bool together = exec.as_ranks.empty();
  const int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  int left = 0;
  int code =
      run_processes(all, together ? static_cast<int>(all.size()) : cores, together, notes, left);
  if (left > 0)
    std::fprintf(stderr, "tidemark: the program left %s running: killed\n",
                 plural(left, "process", "processes").c_str());

  const std::vector<json> records = read_records(session.folder);
  if (records.empty()) {
    std::fputs(
        "tidemark: no process of the program has recorded CUDA memory: none has used it, or it was "
        "killed in its first half second\n",
        stderr);
  } else {
    std::fputs((decisions(records) + table(records) + unknowns(records)).c_str(), stderr);
  }
  std::vector<std::string> failed = failures(records, exec.wishes);
  if (!base.is_null()) {
    const auto more = grown(base, records, thresholds);
    if (more.empty())
      std::fprintf(stderr, "--compare: no peak is higher than in %s\n", exec.base.c_str());
    failed.insert(failed.end(), more.begin(), more.end());
  }
  for (const std::string& line : failed) std::fprintf(stderr, "FAIL %s\n", line.c_str());
  if (code == 0 && !failed.empty()) code = 1;
  if (!exec.report.empty()) write_page(exec, records, failed, code);
  if (!exec.out.empty()) write_report(exec, records, failed, code);
  return code;
}

}  // namespace tidemark
