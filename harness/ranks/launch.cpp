#include "harness/ranks/launch.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "harness/ranks/rank_ending.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

// A folder of the launching process that its ranks share: the agreed exit code, and who failed
// first.
constexpr const char* kSession = "TIDEMARK_SESSION";
constexpr const char* kAgain = "again";

// Open MPI 4 reads OMPI_MCA_*, and so does 5 for what is not its launcher's, PRRTE's: PRTE_MCA_*.
constexpr std::array<std::pair<const char*, const char*>, 10> kOpenMpi{{
    {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
    {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
    {"OMPI_MCA_rmaps_base_oversubscribe", "1"},  // more ranks than cores
    {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
    {"OMPI_MCA_mpi_yield_when_idle", "1"},  // ranks that wait let the others run
    {"OMPI_MCA_hwloc_base_binding_policy", "none"},
    {"PRTE_MCA_hwloc_default_binding_policy", "none"},
    {"OMPI_MCA_orte_execute_quiet", "1"},
    {"OMPI_MCA_reachable", "weighted"},  // 5 warns where no route leads to the machine itself
    {"OMPI_MCA_odls_base_sigkill_timeout", "0"},
}};

volatile sig_atomic_t launched = 0;

volatile sig_atomic_t interrupted = 0;

void pass_on(int) {
  if (launched == 0) return;
  interrupted = interrupted + 1;
  if (interrupted == 1)
    kill(static_cast<pid_t>(launched), SIGTERM);
  else
    kill(-static_cast<pid_t>(launched), SIGKILL);
}

// Processes that the kernel has killed since it started because there was no memory left.
long killed_for_memory() {
  std::ifstream counts("/proc/vmstat");
  std::string name;
  for (long count = 0; counts >> name >> count;)
    if (name == "oom_kill") return count;
  return 0;
}

// The rank that ended first knows best; a rank that gave up has said why.
std::string cause(const fs::path& session, int status) {
  const fs::path failed = session / "failed";
  const auto ended = first_rank_to_end(session);
  std::error_code none;
  const auto gave_up = fs::last_write_time(failed, none);
  if (!none && (!ended || gave_up <= ended->when)) {
    std::string why;
    std::getline(std::ifstream(failed), why);
    return why;
  }
  if (ended) return ended->what;
  if (WIFSIGNALED(status)) return "mpirun was killed";
  const int code = WEXITSTATUS(status);
  return code > 128 ? "a rank died of signal " + std::to_string(code - 128)
                    : "mpirun ended with exit code " + std::to_string(code);
}

}  // namespace

std::string Ending::brief() const {
  return why.substr(0, std::min(why.find(';'), std::size_t{160}));
}

bool under_launcher() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "PMIX_RANK"})
    if (std::getenv(name) != nullptr) return true;
  return false;
}

int launcher_size() {
  for (const char* name : {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_STEP_NUM_TASKS"})
    if (const char* said = std::getenv(name)) return std::atoi(said);
  return 0;
}

int local_rank() {
  for (const char* name :
       {"OMPI_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID", "LOCAL_RANK"})
    if (const char* said = std::getenv(name)) return std::atoi(said);
  return 0;
}

bool launched_by_tidemark() { return std::getenv(kSession) != nullptr; }

std::filesystem::path session_folder() {
  const char* session = std::getenv(kSession);
  return session != nullptr ? session : "";
}

Ended launch(int ranks, const std::vector<std::string>& argv, const Salvage& salvage) {
  const char* chosen = std::getenv("TMPDIR");
  std::error_code none;
  const fs::path place = fs::temp_directory_path(none);
  std::string session = (place / "tidemark-XXXXXX").string();
  if (none || mkdtemp(session.data()) == nullptr) {
    std::fprintf(stderr,
                 "error: no folder for this run can be made in %s: %s; set another TMPDIR\n",
                 none && chosen != nullptr ? chosen : place.c_str(),
                 none ? none.message().c_str() : std::strerror(errno));
    return {};
  }
  std::vector<std::string> command{"mpirun", "-n", std::to_string(ranks)};
  command.insert(command.end(), argv.begin(), argv.end());
  std::vector<char*> pointers;
  for (auto& word : command) pointers.push_back(word.data());
  pointers.push_back(nullptr);

  const pid_t launcher = getpid(), pid = fork();
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGTERM);  // mpirun and its ranks do not outlive this process
    if (getppid() != launcher) _exit(3);
    setpgid(0, 0);  // Ctrl-C in a terminal is for this process to pass on
    setenv(kSession, session.c_str(), 1);
    setenv("OMP_NUM_THREADS", "1", 0);
    for (auto [name, value] : kOpenMpi) setenv(name, value, 0);
    const int null = open("/dev/null", O_RDONLY);
    dup2(null, STDIN_FILENO);
    execvp(pointers[0], pointers.data());
    std::fprintf(stderr,
                 "error: mpirun cannot be started (%s): install OpenMPI (ci/setup does) or start "
                 "tidemark under your "
                 "own launcher\n",
                 std::strerror(errno));
    _exit(127);
  }
  launched = pid;
  const long killed_before = killed_for_memory();
  struct sigaction forward {};
  forward.sa_handler = pass_on;
  for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) {
    struct sigaction before {};
    sigaction(signal, &forward, &before);
    if (before.sa_handler == SIG_IGN) sigaction(signal, &before, nullptr);  // nohup
  }
  int status = 0;
  while (waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  launched = 0;  // from here on a signal finds no process
  Ended ended;
  if (std::ifstream again(fs::path(session) / kAgain); again && interrupted == 0) {
    std::getline(again, ended.again);
  } else if (std::ifstream agreed(fs::path(session) / "exit_code"); agreed) {
    agreed >> ended.code;
  } else if (!WIFEXITED(status) || WEXITSTATUS(status) != 127) {
    Ending ending{"interrupted", interrupted != 0};
    if (!ending.interrupted) {
      ending.why = cause(session, status);
      if (const long killed = killed_for_memory() - killed_before; killed > 0)
        ending.why += "; the kernel killed " + std::to_string(killed) +
                      " process(es) for lack of memory meanwhile";
    } else {
      ended.code = 130;
    }
    if (ending.interrupted || !fs::exists(fs::path(session) / "failed"))
      std::fprintf(stderr, "error: the ranks ended without a result: %s\n", ending.why.c_str());
    salvage(session, ending);
  }
  std::error_code ignored;
  fs::remove_all(session, ignored);
  return ended;
}

void ask_again(const std::string& why) {
  std::ofstream(session_folder() / kAgain) << why.substr(0, why.find('\n')) << '\n';
}

int leave(int rank, int code) {
  const char* session = std::getenv(kSession);
  if (session == nullptr) return code;
  if (rank == 0) std::ofstream(fs::path(session) / "exit_code") << code << '\n';
  return 0;  // mpirun comments on any other code; the launching process returns the real one
}

bool write_first(const fs::path& file, const std::string& text) {
  const int opened = open(file.c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (opened < 0) return false;
  [[maybe_unused]] const auto written = write(opened, text.data(), text.size());
  close(opened);
  return true;
}

bool first_to_fail(const std::string& what) {
  return !launched_by_tidemark() || write_first(session_folder() / "failed", what);
}

}  // namespace tidemark
