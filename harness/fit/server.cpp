#include "harness/fit/server.h"

#include <signal.h>
#include <sys/wait.h>

#include <chrono>
#include <thread>

#include "harness/device/linked_device.h"
#include "harness/exec/program.h"
#include "harness/exec/settings.h"
#include "harness/ranks/processes.h"

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
  ExecSettings settings;
  settings.serves = folder / "environment";
  std::vector<std::string> words{fs::read_symlink("/proc/self/exe"), "exec"};
  words.insert(words.end(), flags.begin(), flags.end());
  words.insert(words.end(),
               {"--", python, linked_folder() / "python" / "tidemark_server.py", place, python});
  process_ = start_process({.name = "server",
                            .argv = words,
                            .environment = {settings.variable()},
                            .log = folder / "server.log"},
                           /*own_group=*/true);
  for (const auto until = std::chrono::steady_clock::now() + kLongest;
       process_ != 0 && interruption() == 0 && std::chrono::steady_clock::now() < until;
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
