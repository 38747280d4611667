#include "harness/ranks/processes.h"

#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include "harness/errors.h"
#include "harness/ranks/served.h"
#include "harness/virtual/device/new_file.h"
#include "harness/virtual/device/text.h"

namespace tidemark {
namespace {

using Clock = std::chrono::steady_clock;
constexpr auto kKillAfter = std::chrono::seconds(5);  // between SIGTERM and SIGKILL
constexpr auto pause = std::chrono::milliseconds(5);
constexpr std::array signals{SIGINT, SIGTERM, SIGHUP, SIGQUIT};

volatile sig_atomic_t caught = 0;
void on_signal(int signal) { caught = signal; }

// A signal that is ignored from the start (nohup) stays ignored.
void hear(int signal, void (*handler)(int)) {
  struct sigaction action {};
  struct sigaction before {};
  action.sa_handler = handler;
  sigaction(signal, &action, &before);
  if (before.sa_handler == SIG_IGN) sigaction(signal, &before, nullptr);
}

std::vector<pid_t> children() {
  std::vector<pid_t> pids;
  TextIn list(text_of_file(("/proc/self/task/" + std::to_string(getpid()) + "/children").c_str())
                  .value_or(""));
  for (pid_t child = 0; list >> child;) pids.push_back(child);
  return pids;
}

int code_of(int status) {
  return WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
}

std::string text_of(int status) {
  if (!WIFSIGNALED(status)) return "ended with exit code " + std::to_string(WEXITSTATUS(status));
  return "was ended by signal " + std::to_string(WTERMSIG(status)) + " (" +
         strsignal(WTERMSIG(status)) + ")";
}

}  // namespace

int cores() {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 1;
}

void outlive_readers() {
  hear(SIGPIPE, [](int) {});  // a program that is started gets the default again
}

void hear_interruptions() {
  for (const int signal : signals) hear(signal, on_signal);
}

int interruption() { return caught; }

pid_t start_process(const Start& what, bool own_group) {
  const pid_t parent = getpid(), child = fork();
  if (child < 0)
    throw UsageError("no further process can be started: " + std::string(std::strerror(errno)));
  if (own_group) setpgid(child, child);
  if (child > 0) return child;
  for (const int signal : signals) {
    struct sigaction before {};
    sigaction(signal, nullptr, &before);
    if (before.sa_handler != SIG_IGN) ::signal(signal, SIG_DFL);
  }
  prctl(PR_SET_PDEATHSIG, SIGTERM);
  if (getppid() != parent) _exit(3);
  for (const auto& [name, value] : what.environment) setenv(name.c_str(), value.c_str(), 1);
  if (!what.log.empty()) {
    const int output = create_file(what.log.c_str(), O_WRONLY, 0600);
    dup2(output, 1), dup2(output, 2);
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
  }
  if (!what.server.empty()) run_served(what.server, what.argv);
  std::vector<char*> argv;
  argv.reserve(what.argv.size() + 1);
  for (const std::string& word : what.argv) argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  std::fprintf(stderr, "error: %s cannot be started: %s\n", argv[0], std::strerror(errno));
  _exit(2);
}

ProcessesEnd run_processes(const std::vector<Start>& starts, int at_once, bool together,
                           const std::filesystem::path& notes) {
  prctl(PR_SET_CHILD_SUBREAPER, 1);  // orphans of the program come here
  const std::vector<pid_t> before = children();
  outlive_readers();
  hear_interruptions();
  const bool groups = starts.size() > 1;
  std::map<pid_t, std::string> running;
  std::map<pid_t, Clock::time_point> limits;
  std::size_t next = 0;
  ProcessesEnd end;
  Clock::time_point ending{};  // when the rest was asked to end
  const auto note = [&](const std::string& name, const char* state) {  // a name may be a path
    return notes / (std::filesystem::path(name).filename().string() + state);
  };
  const auto is = [&](const std::string& name, const char* state) {
    return std::filesystem::exists(note(name, state));
  };
  const auto working = [&] {  // `waits` becomes `ready`, so it is looked for first
    return std::ranges::count_if(running, [&](const auto& one) {
      return !is(one.second, ".waits") && !is(one.second, ".ready");
    });
  };
  const auto tell = [&](int signal) {
    for (const auto& [child, name] : running) kill(groups ? -child : child, signal);
  };
  const auto end_rest = [&](int signal) {
    next = starts.size();
    if (ending == Clock::time_point{}) ending = Clock::now();
    tell(signal);
  };
  while (next < starts.size() || !running.empty()) {
    while ((!together || next < starts.size()) && working() < at_once) {  // ready ones come first
      const auto ready =
          std::ranges::find_if(running, [&](const auto& one) { return is(one.second, ".ready"); });
      if (ready != running.end()) {
        std::filesystem::remove(note(ready->second, ".ready"));
      } else if (next < starts.size()) {
        const Start& one = starts[next++];
        const pid_t child = start_process(one, groups);
        running[child] = one.name;
        if (one.limit > 0) limits[child] = Clock::now() + std::chrono::seconds(one.limit);
      } else {
        break;
      }
    }
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (caught != 0) {
      const int signal = groups && end.signal != 0 ? SIGKILL : caught;  // the second kills
      end.signal = caught;
      caught = 0;
      if (groups || signal != SIGINT ||
          tcgetpgrp(STDIN_FILENO) != getpgrp()) {  // else it came to the program as well
        if (end.code == 0) end.code = 128 + signal;
        end_rest(signal);
      }
    }
    if (ending != Clock::time_point{} && Clock::now() - ending > kKillAfter) {
      tell(SIGKILL);
      ending = Clock::now();
    }
    for (auto& [child, until] : limits) {
      if (!running.contains(child) || Clock::now() < until) continue;
      const bool again = is(running[child], ".late");
      make_mark(note(running[child], ".late").c_str());
      kill(groups ? -child : child, again ? SIGKILL : SIGTERM);
      until = Clock::now() + 3 * kKillAfter;  // an exec kills its program before
    }
    if (ended <= 0 || !running.contains(ended)) {
      if (ended <= 0) std::this_thread::sleep_for(pause);
      continue;
    }
    const std::string name = running[ended];
    running.erase(ended);
    limits.erase(ended);
    std::filesystem::remove(note(name, ".ready"));
    make_mark(note(name, ".ended").c_str());
    if (groups) kill(-ended, SIGTERM);  // what it has started goes with it
    if (code_of(status) == 0) continue;
    std::string line = name + " " + text_of(status);
    if (WIFSIGNALED(status)) end.killed[name] = text_of(status);
    if (end.first.empty()) {
      end.first_name = name;
      end.first = line;
      end.first_at = std::filesystem::file_time_type::clock::now();
    }
    if (end.code == 0) end.code = code_of(status);
    const bool ends_the_rest = together && !running.empty() && ending == Clock::time_point{};
    if (ends_the_rest) line += ": tidemark ends the other ranks";
    if (ends_the_rest || (WIFSIGNALED(status) && ending == Clock::time_point{}))
      end.messages.push_back(line);
    if (ends_the_rest) end_rest(SIGTERM);
  }
  const auto left = [&] {
    std::vector<pid_t> all = children();
    std::erase_if(all,
                  [&](pid_t child) { return std::ranges::find(before, child) != before.end(); });
    return all;
  };
  for (const auto until = Clock::now() + std::chrono::seconds(1);
       !left().empty() && Clock::now() < until;) {
    while (waitpid(-1, nullptr, WNOHANG) > 0) {
    }
    std::this_thread::sleep_for(pause);
  }
  for (pid_t child : left()) {
    if (kill(child, SIGKILL) == 0 && waitpid(child, nullptr, 0) == child) ++end.left;
  }
  return end;
}

}  // namespace tidemark
