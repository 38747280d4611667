#include "harness/exec/exec.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <map>
#include <optional>

#include "harness/device/linked_device.h"
#include "harness/errors.h"
#include "harness/exec/cause.h"
#include "harness/exec/describe.h"
#include "harness/exec/findings.h"
#include "harness/exec/first_line.h"
#include "harness/exec/job.h"
#include "harness/exec/options.h"
#include "harness/exec/program.h"
#include "harness/exec/records.h"
#include "harness/exec/settings.h"
#include "harness/memory/highest_peak.h"
#include "harness/ranks/launcher.h"
#include "harness/ranks/processes.h"
#include "harness/record/units.h"
#include "harness/record/write.h"
#include "reports/folder.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

constexpr const char* kOwnJob = "tidemark exec";  // in the place of a launcher's name

void set(const char* name, const std::string& value) {
  if (!value.empty()) setenv(name, value.c_str(), 1);
}

void set(const ExecSettings& settings) {
  const auto [name, value] = settings.variable();
  set(name.c_str(), value);
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
  ExecSettings settings = ExecSettings::given();
  settings.layer = libraries.layer;
  settings.torch = libraries.torch;
  set(settings);
  put_before("LD_PRELOAD", fmt::format("{}", fmt::join(preloaded, ":")));
  put_before("PYTHONPATH", listed(folder / "python"));
  set("TRITON_LIBCUDA_PATH", folder);
  set("TIDEMARK_MODE", exec.mode);
  set("TIDEMARK_KNOWN_LIMIT", exec.known_limit);
  set("TIDEMARK_SIZES", exec.sizes);
  set("TIDEMARK_GPU", exec.gpu);
  set("TIDEMARK_CAPACITY", exec.capacity);
  set("TIDEMARK_RESERVE", exec.reserve);
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

// `settings` are those that all processes have alike.
std::vector<Start> starts(const ExecOptions& exec, const fs::path& program, ExecSettings settings) {
  std::vector<std::string> argv = exec.program;
  argv.front() = program;
  if (exec.ranks == 0 && exec.as_ranks.empty())
    return {{exec.program.front(), argv, {}, 0, settings.server}};
  const bool absent = !exec.as_ranks.empty();
  const int here = absent ? 1 : exec.ranks;
  const std::string port = free_port();
  std::vector<Start> all;
  for (int i = 0; i < (absent ? static_cast<int>(exec.as_ranks.size()) : exec.ranks); ++i) {
    const int rank = absent ? exec.as_ranks[static_cast<std::size_t>(i)] : i;
    Start& one =
        all.emplace_back(Start{fmt::format("rank {}", rank), argv, {}, 0, settings.server});
    one.environment = {{"RANK", std::to_string(rank)},
                       {"WORLD_SIZE", std::to_string(absent ? exec.of : exec.ranks)},
                       {"LOCAL_RANK", std::to_string(absent ? 0 : i)},
                       {"LOCAL_WORLD_SIZE", std::to_string(here)},
                       {"GROUP_RANK", std::to_string(absent ? rank : 0)},
                       {"MASTER_ADDR", "127.0.0.1"},
                       {"MASTER_PORT", port}};
    if (absent) {
      settings.alone = rank;
      one.environment.insert({{"TIDEMARK_NCCL_ALONE", "1"}, settings.variable()});
    }
  }
  return all;
}

/// For tidemark_server.py: what it was started with, which a Python that a script starts changes.
void write_environment(const std::string& file) {
  std::string text;
  for (char** each = environ; *each != nullptr; ++each) text.append(*each).push_back('\0');
  write_bytes(file, text);
}

/// Runs the program once, and returns its exit code. Its processes leave their records in `folder`.
int run_once(const ExecOptions& exec, const fs::path& program, const std::string& schedule,
             const fs::path& folder) {
  fs::path snapshots;
  if (!exec.report.empty()) {
    if (exec.schedules.size() > 1) fs::create_directory(fs::path(exec.report) / schedule);
    snapshots = snapshots_of(exec.report, schedule);
  }
  set("TIDEMARK_EXEC", folder);
  set("TIDEMARK_USERS", folder / "users");
  set("TIDEMARK_SCHEDULE", schedule);
  const fs::path notes = folder / "partners";
  fs::create_directory(notes);
  fs::create_directory(folder / "users");
  ExecSettings settings = ExecSettings::given();
  if (!snapshots.empty()) settings.history = exec.events.empty() ? 1 : 2;
  settings.partners = notes;
  settings.present = exec.as_ranks;
  set(settings);
  const std::vector<Start> all = starts(exec, program, settings);
  if (!settings.serves.empty()) write_environment(settings.serves);
  const bool together = exec.as_ranks.empty();
  const ProcessesEnd end =
      run_processes(all, together ? static_cast<int>(all.size()) : cores(), together, notes);
  if (end.code != 0) leave_cause({end.code, end.first_name, end.first});
  for (const std::string& line : end.messages) say("tidemark: " + one_line(line) + "\n");
  if (end.left > 0)
    say("tidemark: the program left " + plural(end.left, "process", "processes") +
        " running: killed\n");
  if (!snapshots.empty()) write_snapshots(folder, snapshots);
  return end.code;
}

using Clock = std::chrono::steady_clock;

Ns since(Clock::time_point begun) { return std::chrono::nanoseconds(Clock::now() - begun).count(); }

bool is_full(const std::vector<ProcessRecord>& processes) {
  return std::ranges::any_of(processes, [](const ProcessRecord& process) {
    return std::ranges::any_of(process.devices,
                               [](const DeviceRecord& device) { return device.ooms > 0; });
  });
}

/// Whether every process whose optimizers have stepped repeats its steps (tidemark_steady.py).
bool all_steady(const fs::path& folder) {
  std::ptrdiff_t stepped = 0, steady = 0;
  for (const auto& file : fs::directory_iterator(folder)) {
    stepped += file.path().extension() == ".steps";
    steady += file.path().extension() == ".steady";
  }
  return stepped > 0 && steady == stepped;
}

/// What the program needs, by a run with room to spare that ends when its steps repeat. `took`: the
/// run that ran out of memory, four times as long as which it may last, and a minute.
MemoryNeed run_with_room(const ExecOptions& exec, const fs::path& program,
                         const std::string& schedule, Ns took) {
  constexpr const char* kRoom = "1099511627776";  // bytes, more than any GPU has
  constexpr Ns kSecond = 1'000'000'000;
  say("tidemark: out of memory: the program runs once more with room, to see what it needs "
      "(--no-room leaves this out)\n");
  const Session session;
  const fs::path notes = session.folder / "partners", steady = session.folder / "steady",
                 users = session.folder / "users";
  for (const fs::path& folder : {notes, steady, users}) fs::create_directory(folder);
  const ExecSettings before = ExecSettings::given();
  ExecSettings settings = before;
  settings.history = exec.report.empty() ? 0 : 1;
  settings.partners = notes, settings.present = exec.as_ranks;
  settings.steady = steady, settings.steady_ends = true;
  set(settings);
  set("TIDEMARK_EXEC", session.folder);
  set("TIDEMARK_USERS", users);
  set("TIDEMARK_SCHEDULE", schedule);
  set("TIDEMARK_CAPACITY", kRoom);
  std::vector<Start> all = starts(exec, program, settings);
  const auto limit = static_cast<int>(60 + 4 * (took / kSecond));
  for (Start& one : all) {
    one.limit = limit;
    one.log = session.folder / (one.name.substr(one.name.rfind('/') + 1) + ".log");
  }
  const bool together = exec.as_ranks.empty();
  const ProcessesEnd end =
      run_processes(all, together ? static_cast<int>(all.size()) : cores(), together, notes);
  set(before);
  exec.capacity.empty() ? unsetenv("TIDEMARK_CAPACITY")
                        : setenv("TIDEMARK_CAPACITY", exec.capacity.c_str(), 1);
  if (!exec.report.empty()) {
    const fs::path room = snapshots_of(exec.report, schedule) / kRoomFolder;
    fs::create_directories(room);
    write_snapshots(session.folder, room);
  }
  MemoryNeed need;
  bool late = false;
  for (const ProcessRecord& process : read_records(session.folder, users))
    for (const DeviceRecord& device : process.devices) {
      need.allocated = std::max(need.allocated, device.allocated);
      need.reserved = std::max(need.reserved, device.all());
    }
  for (const Start& one : all)
    late = late || fs::exists(notes / (fs::path(one.name).filename().string() + ".late"));
  if (late)
    need.until = fmt::format("it was ended after {} s", limit);
  else if (end.code != 0 && !all_steady(steady))
    need.until = fmt::format("it ended with exit code {}", end.code);
  return need;
}

/// The need of a program that has run out of memory, of those that a user has started.
std::optional<MemoryNeed> need_of(const ExecOptions& exec, const fs::path& program,
                                  const std::string& schedule, int code, Ns took,
                                  const std::vector<ProcessRecord>& processes) {
  const bool by_user = ExecSettings::given().cause.empty();
  if (code == 0 || !exec.room || !by_user || !is_full(processes)) return std::nullopt;
  return run_with_room(exec, program, schedule, took);
}

/// Runs the program under every schedule, up to one under which it fails, for the terminal alone.
int run_alone(const ExecOptions& exec, const fs::path& program, Report plan, const Report& base) {
  const auto begun = Clock::now();
  Findings findings(exec, plan.run);
  for (TrialRecord& one : plan.trials) {
    if (plan.trials.size() > 1) say("schedule " + one.schedule + ":\n");
    const Session session;
    if (&one == &plan.trials.front()) say(first_line(exec, plan.run.host));
    const auto started = Clock::now();
    one.program->exit_code = run_once(exec, program, one.schedule, session.folder);
    one.program->processes = read_records(session.folder, session.folder / "users");
    share_gpus(*one.program, plan.run.context_bytes);
    const bool failed = one.program->exit_code != 0;
    one.program->needs = need_of(exec, program, one.schedule, one.program->exit_code,
                                 since(started), one.program->processes);
    findings.add(std::move(one));
    if (failed) break;
  }
  return findings.finish(base, since(begun));
}

/// Runs the program for a file or a folder, as one process of a job, or as the only one of a job of
/// its own. The last to end reports for all (job.h).
int run_in_job(const ExecOptions& exec, const fs::path& program, const Report& plan,
               const Report& base, const Launcher& launcher) {
  const auto begun = Clock::now();
  const std::string flag = exec.report.empty() ? "--out " + exec.out : "--report " + exec.report;
  const fs::path folder = fs::absolute(exec.report.empty() ? exec.out + "." + kJobFolder
                                                           : exec.report + "/" + kJobFolder);
  Job job = Job::join(folder, launcher, plan, flag, [&] { check_places(exec, true); });
  if (launcher.name == kOwnJob) say(first_line(exec, plan.run.host));
  int code = 0;
  std::map<std::string, MemoryNeed> needs;  // by schedule
  for (const TrialRecord& one : plan.trials) {
    const auto started = Clock::now();
    const fs::path records = job.begin(one.schedule);
    code = run_once(exec, program, one.schedule, records);
    job.end(one.schedule, code);
    if (code == 0) continue;
    if (launcher.name == kOwnJob)
      if (const auto need = need_of(exec, program, one.schedule, code, since(started),
                                    read_records(records, records / "users")))
        needs.emplace(one.schedule, *need);
    break;
  }
  bool complete = false;
  {
    const Held lock = job.end();
    complete = job.complete();
    if (!complete && code == 0 && job.alive()) return 0;
    Report report = job.report();
    Findings findings(exec, std::move(report.run));
    for (TrialRecord& one : report.trials) {
      if (const auto need = needs.find(one.schedule); need != needs.end())
        one.program->needs = need->second;
      findings.add(std::move(one));
    }
    const int all = findings.finish(base, since(begun));
    if (exec.own_folder && code == 0) remember(exec, plan.run.host, since(begun));
    if (code == 0) code = all;
  }
  if (complete) job.remove();
  return code;
}

Launcher own_job() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  Launcher own;
  own.name = kOwnJob;
  own.job = fmt::format("{}-{}", host, getpid());
  return own;
}

}  // namespace

int exec_program(int argc, char** argv, const RunRecord& version) {
  ExecOptions exec;
  if (const int code = parse_exec(argc, argv, exec); code >= 0) return code;
  outlive_readers();
  auto launcher = find_launcher();
  if (launcher && launcher->size <= 1) launcher.reset();
  if (launcher) check_launched(exec, *launcher);
  const bool in_job = !(exec.report.empty() && exec.out.empty());
  if (!launcher) check_places(exec, false);
  if (!launcher && in_job) launcher = own_job();
  const Report base = exec.base.empty() ? Report() : read_base(exec.base);
  const fs::path program = find_program(exec.program.front());
  const Libraries libraries = libraries_of(program);
  Listed listed;
  set_environment(exec, libraries, listed);
  Report plan;
  plan.run = describe_exec(argc, argv, libraries.torch, version);
  constexpr auto kModes = words(Mode());
  const auto mode = std::ranges::find(kModes, exec.mode) - kModes.begin();
  for (const std::string& schedule : exec.schedules)
    plan.trials.push_back(program_trial(exec.program, static_cast<Mode>(mode), schedule,
                                        std::max({exec.ranks, exec.of, 1})));
  return in_job ? run_in_job(exec, program, plan, base, *launcher)
                : run_alone(exec, program, std::move(plan), base);
}

}  // namespace tidemark
