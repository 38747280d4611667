// one_test NAME COMMAND...: starts a test as every test is started: the signals do what they do by
// default (nohup ignores SIGHUP), and stdin is empty. Where TEST_COSTS names a folder, the CPU
// seconds of the test and of all processes that it has waited for are appended to the file NAME
// there. Programs that run in copies of a server (harness/exec/testing/exec_server.py) are no
// children of the test: the server appends theirs to TEST_COST_FILE, which is that file.
#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

void begin_as_any_test() {
  for (int number = 1; number < SIGRTMIN; ++number) signal(number, SIG_DFL);
  sigset_t none;
  sigemptyset(&none);
  sigprocmask(SIG_SETMASK, &none, nullptr);
  const int empty = open("/dev/null", O_RDONLY);
  if (empty > 0) dup2(empty, 0), close(empty);
}

[[noreturn]] void become(char** command) {
  execvp(command[0], command);
  std::fprintf(stderr, "error: %s cannot be started: %s\n", command[0], std::strerror(errno));
  _exit(3);
}

double seconds(const timeval& time) {
  return static_cast<double>(time.tv_sec) + 1e-6 * static_cast<double>(time.tv_usec);
}

pid_t the_test = 0;
void pass_on(int number) { kill(the_test, number); }

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    std::fputs("error: one_test NAME COMMAND...\n", stderr);
    return 2;
  }
  begin_as_any_test();
  const char* folder = std::getenv("TEST_COSTS");
  if (folder == nullptr || *folder == 0) become(argv + 2);
  const std::string file = std::string(folder) + "/" + argv[1];
  setenv("TEST_COST_FILE", file.c_str(), 1);
  the_test = fork();
  if (the_test < 0) return std::perror("error: fork"), 3;
  if (the_test == 0) become(argv + 2);
  for (const int number : {SIGTERM, SIGINT, SIGHUP}) signal(number, pass_on);
  int status = 0;
  while (waitpid(the_test, &status, 0) < 0 && errno == EINTR) {
  }
  rusage used{};
  getrusage(RUSAGE_CHILDREN, &used);
  if (std::FILE* costs = std::fopen(file.c_str(), "a")) {
    std::fprintf(costs, "%.3f\n", seconds(used.ru_utime) + seconds(used.ru_stime));
    std::fclose(costs);
  }
  if (!WIFSIGNALED(status)) return WEXITSTATUS(status);
  signal(WTERMSIG(status), SIG_DFL);
  raise(WTERMSIG(status));  // ctest tells a crash from a failure
  return 128 + WTERMSIG(status);
}
