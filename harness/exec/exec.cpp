#include "harness/exec/exec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <optional>
#include <stdexcept>

#include "harness/device/linked_device.h"
#include "harness/errors.h"
#include "harness/exec/options.h"
#include "harness/exec/program.h"
#include "harness/exec/records.h"
#include "harness/ranks/processes.h"
#include "harness/record/json.h"
#include "reports/program/page.h"
#include "reports/program/text.h"
#include "reports/units.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

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

fs::path temporary_files() {
  std::error_code none;
  const fs::path place = fs::temp_directory_path(none);
  if (none) throw UsageError("exec: TMPDIR is not a folder: " + std::string(std::getenv("TMPDIR")));
  return place;
}

/// A folder that is removed at the end.
struct Session {
  fs::path folder;
  explicit Session(const fs::path& in = temporary_files()) {
    std::string name = in / "tidemark-exec-XXXXXX";
    if (mkdtemp(name.data()) == nullptr)
      throw UsageError("exec: no folder can be made in " + in.string());
    folder = name;
  }
  ~Session() {
    std::error_code ignored;
    fs::remove_all(folder, ignored);
  }
};

/// Names of files without a space and a colon, at which ld.so and Python separate their lists: a
/// folder with one is named by a link to it.
class Listed {
 public:
  std::string operator()(const fs::path& file) {
    if (file.string().find_first_of(" :") == std::string::npos) return file;
    if (!links_) links_.emplace("/tmp");
    const auto [link, is_new] =
        known_.try_emplace(file.parent_path(), links_->folder / std::to_string(known_.size()));
    if (is_new) fs::create_directory_symlink(fs::absolute(file.parent_path()), link->second);
    return link->second / file.filename();
  }

 private:
  std::optional<Session> links_;
  std::map<fs::path, fs::path> known_;
};

// Sets the environment that all processes of the program inherit.
void set_environment(const ExecOptions& exec, const Libraries& libraries, Listed& listed) {
  const fs::path folder = linked_folder();
  std::vector<std::string> preloaded;
  for (const fs::path& library : libraries.preloaded) preloaded.push_back(listed(library));
  put_before("LD_PRELOAD", fmt::format("{}", fmt::join(preloaded, ":")));
  put_before("PYTHONPATH", listed(folder / "python"));
  set("TRITON_LIBCUDA_PATH", folder);
  set("TIDEMARK_EXEC_LAYER", libraries.layer);
  set("TIDEMARK_EXEC_TORCH", libraries.torch);
  set("TIDEMARK_MODE", exec.mode);
  set("TIDEMARK_KNOWN_LIMIT", exec.known_limit);
  set("TIDEMARK_SIZES", exec.sizes);
  set("TIDEMARK_GPU", exec.gpu);
  set("TIDEMARK_CAPACITY", exec.capacity);
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
std::vector<Start> starts(const ExecOptions& exec, const fs::path& program, const fs::path& notes) {
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

/// The cores that this process may use.
int cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

/// Runs the program once; `snapshots` may be empty. The verdicts are not judged yet.
ProgramRecord run_once(const ExecOptions& exec, const fs::path& program,
                       const std::string& schedule, const fs::path& snapshots) {
  const Session session;
  set("TIDEMARK_EXEC", session.folder);
  set("TIDEMARK_EXEC_SNAPSHOTS", snapshots);
  set("TIDEMARK_USERS", session.folder / "users");
  set("TIDEMARK_SCHEDULE", schedule);
  const fs::path notes = session.folder / "partners";
  fs::create_directory(notes);
  fs::create_directory(session.folder / "users");
  const std::vector<Start> all = starts(exec, program, notes);
  const bool together = exec.as_ranks.empty();
  ProgramRecord out{exec.program, exec.mode, schedule, 0, {}, {}, {}};
  const ProcessesEnd end =
      run_processes(all, together ? static_cast<int>(all.size()) : cores(), together, notes);
  out.exit_code = end.code;
  for (const std::string& line : end.said) std::fprintf(stderr, "tidemark: %s\n", line.c_str());
  if (end.left > 0)
    std::fprintf(stderr, "tidemark: the program left %s running: killed\n",
                 plural(end.left, "process", "processes").c_str());
  out.processes = read_records(session.folder, session.folder / "users");
  return out;
}

void say(const std::string& text) { std::fputs(text.c_str(), stderr); }

void say_peaks(const ProgramRecord& program) {
  if (program.processes.empty())
    say("tidemark: no process of the program has recorded CUDA memory: none has used it, or it has "
        "not the environment of tidemark exec (env -i and sudo clear it)\n");
  else
    say(decisions(program) + table(program) + unknowns(program));
}

/// Runs the program under every schedule, up to one under which it fails.
Report run_all(const ExecOptions& exec, const fs::path& program, RunRecord run,
               std::vector<HighestPeak>& peaks) {
  Report report;
  report.run = std::move(run);
  const auto begun = std::chrono::steady_clock::now();
  for (const std::string& schedule : exec.schedules) {
    if (exec.schedules.size() > 1) say("schedule " + schedule + ":\n");
    fs::path snapshots;
    if (!exec.report.empty()) {
      if (exec.schedules.size() > 1) fs::create_directory(fs::path(exec.report) / schedule);
      snapshots = snapshots_of(exec.report, schedule);
    }
    ProgramRecord one = run_once(exec, program, schedule, snapshots);
    say_peaks(one);
    if (!exec.report.empty()) {
      peaks.push_back(highest_peak(snapshots));
      one.alive = alive_at(peaks.back());
    }
    one.failures = failures(one, exec.wishes);
    report.programs.push_back(std::move(one));
    if (report.programs.back().exit_code != 0) break;
  }
  if (!peaks.empty()) say(alive_text(peaks));
  say(bracket_text(report.programs));
  report.run.duration_ns =
      std::chrono::nanoseconds(std::chrono::steady_clock::now() - begun).count();
  return report;
}

void write(const ExecOptions& exec, const Report& report, const std::vector<HighestPeak>& peaks) {
  const std::string text = json_text(report);
  if (!exec.report.empty()) {
    std::vector<File> files = program_files(report, peaks);
    files.push_back({"report.json", text});
    write_files(exec.report, files, "name another folder (--report)");
    say("report: " + (fs::path(exec.report) / "report.html").string() + "\n");
  }
  if (exec.out.empty()) return;
  std::ofstream file(exec.out);
  file << text;
  if (!file.flush())
    throw std::runtime_error("exec: --out " + exec.out +
                             " cannot be written: " + std::strerror(errno));
}

}  // namespace

int exec_program(int argc, char** argv, const RunRecord& version) {
  ExecOptions exec;
  if (const int code = parse_exec(argc, argv, exec); code >= 0) return code;
  const Report base = exec.base.empty() ? Report() : read_base(exec.base);
  const fs::path program = find_program(exec.program.front());
  const Libraries libraries = libraries_of(program);
  Listed listed;
  set_environment(exec, libraries, listed);

  std::vector<HighestPeak> peaks;
  Report report =
      run_all(exec, program, describe_exec(argc, argv, libraries.torch, version), peaks);
  std::vector<ProgramRecord>& programs = report.programs;
  Grown more;
  if (!exec.base.empty()) {
    more = grown(base, report, exec.thresholds);
    if (more.failures.empty()) say("--compare: no peak is higher than in " + exec.base + "\n");
    programs.back().failures.insert(programs.back().failures.end(), more.failures.begin(),
                                    more.failures.end());
  }
  int code = 0;
  for (const ProgramRecord& one : programs) {
    for (const std::string& line : one.failures)
      say("FAIL " + (programs.size() > 1 ? one.schedule + ": " : "") + line + "\n");
    if (code == 0) code = one.exit_code;
  }
  for (const std::string& part : more.parts) say("     " + part + "\n");
  const bool failed =
      std::ranges::any_of(programs, [](const ProgramRecord& one) { return !one.failures.empty(); });
  write(exec, report, peaks);
  return code == 0 && failed ? 1 : code;
}

}  // namespace tidemark
