#include "harness/ranks/rank_ending.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <fstream>

#include "harness/ranks/launch.h"

namespace tidemark {
namespace {

constexpr const char* kEnded = "ended";
constexpr const char* kWaited = "TIDEMARK_RANK_PARENT";  // set in the child, for what it execs

const char* rank_in_environment() {
  for (const char* name : {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK"})
    if (const char* rank = std::getenv(name)) return rank;
  return nullptr;
}

std::string text_of(int status) {
  if (!WIFSIGNALED(status)) return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  const int signal = WTERMSIG(status);
  const std::string number = "(signal " + std::to_string(signal) + ")";
  if (signal == SIGKILL) return "was killed " + number;
  if (signal == SIGTERM) return "was terminated " + number;
  return std::string("crashed: ") + strsignal(signal) + " " + number;
}

// Writes the ending of the first rank alone: mpirun ends the others as soon as this process has
// ended.
void write_down(const std::string& rank, int status) {
  const int file =
      open((session_folder() / kEnded).c_str(), O_CREAT | O_EXCL | O_WRONLY | O_CLOEXEC, 0600);
  if (file < 0) return;
  const std::string text = "rank " + rank + " " + text_of(status) + "\n";
  [[maybe_unused]] const auto written = write(file, text.data(), text.size());
  close(file);
}

[[noreturn]] void end_likewise(int status) {
  if (WIFSIGNALED(status)) {
    const rlimit none{0, 0};  // the child has left its core already
    setrlimit(RLIMIT_CORE, &none);
    signal(WTERMSIG(status), SIG_DFL);
    raise(WTERMSIG(status));
  }
  _exit(WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status));
}

}  // namespace

void record_how_this_rank_ends() {
  const char* rank = rank_in_environment();
  if (rank == nullptr || !launched_by_tidemark() || std::getenv(kWaited) != nullptr) return;
  setenv(kWaited, "1", 1);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return;
  if (child == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);  // the rank never outlives its parent
    if (getppid() != parent) _exit(3);
    return;
  }
  prctl(PR_SET_NAME, "rank_parent");
  int status = 0;
  while (waitpid(child, &status, 0) < 0)
    if (errno != EINTR) _exit(3);
  if (status != 0) write_down(rank, status);
  end_likewise(status);
}

std::optional<RankEnding> first_rank_to_end(const std::filesystem::path& session) {
  RankEnding ending;
  std::ifstream file(session / kEnded);
  std::error_code error;
  ending.when = std::filesystem::last_write_time(session / kEnded, error);
  if (error || !std::getline(file, ending.what)) return std::nullopt;
  return ending;
}

}  // namespace tidemark
