#include "harness/fit/server.h"

#include <fcntl.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <thread>

#include "harness/device/linked_device.h"
#include "harness/exec/program.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
constexpr auto kLongest = std::chrono::seconds(300);  // for Python and the import of torch
constexpr auto kPause = std::chrono::milliseconds(20);

}  // namespace

Server::~Server() {
  if (process_ == 0) return;
  kill(-process_, SIGTERM);
  for (int tries = 0; tries < 250 && waitpid(process_, nullptr, WNOHANG) == 0; ++tries)
    std::this_thread::sleep_for(kPause);
  kill(-process_, SIGKILL);
  waitpid(process_, nullptr, 0);
}

void Server::start(const std::string& python, const std::vector<std::string>& flags,
                   const fs::path& folder) {
  const fs::path place = folder / "server";
  std::vector<std::string> words{fs::read_symlink("/proc/self/exe"), "exec"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(),
               {"--", python, linked_folder() / "python" / "tidemark_server.py", place, python});
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const std::string log = folder / "server.log";
  const pid_t parent = getpid();
  process_ = fork();
  if (process_ == 0) {
    setpgid(0, 0);
    prctl(PR_SET_PDEATHSIG, SIGTERM);
    if (getppid() != parent) _exit(3);
    for (const int signal : {SIGINT, SIGTERM, SIGHUP, SIGQUIT}) ::signal(signal, SIG_DFL);
    const int output = open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    dup2(output, 1), dup2(output, 2);
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    setenv("TIDEMARK_EXEC_SERVES", (folder / "environment").c_str(), 1);
    execv(argv[0], argv.data());
    _exit(3);
  }
  if (process_ < 0) process_ = 0;
  for (const auto until = std::chrono::steady_clock::now() + kLongest;
       process_ != 0 && std::chrono::steady_clock::now() < until;
       std::this_thread::sleep_for(kPause)) {
    if (fs::exists(place)) {
      socket_ = place;
      return;
    }
    if (waitpid(process_, nullptr, WNOHANG) == process_) process_ = 0;
  }
}

std::string served_python(const std::vector<std::string>& program) {
  const fs::path first = find_program(program.front());
  if (python_of(first) != first || program.size() < 2) return "";
  std::size_t at = program[1] == "-u" ? 2 : 1;
  if (at >= program.size()) return "";
  const bool served = program[at] == "-m" || program[at].ends_with(".py");
  return served ? first.string() : "";
}

}  // namespace tidemark
