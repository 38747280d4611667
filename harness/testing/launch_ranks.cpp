// ranks N PROGRAM [ARGUMENT ...]: runs a test on N ranks, by tidemark's own launcher, or, where
// TIDEMARK_TEST_LAUNCHER names another one with its options ("mpiexec.mpich -n"), by that.
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sstream>
#include <string>
#include <vector>

#include "harness/ranks/launch.h"

int main(int argc, char** argv) {
  const int ranks = argc > 2 ? std::atoi(argv[1]) : 0;
  if (ranks < 1) {
    std::fputs("error: ranks N PROGRAM [ARGUMENT ...]\n", stderr);
    return 2;
  }
  const std::vector<std::string> program(argv + 2, argv + argc);
  const char* launcher = std::getenv("TIDEMARK_TEST_LAUNCHER");
  if (launcher == nullptr || *launcher == 0) return tidemark::launch(ranks, program).code;
  std::vector<std::string> words;
  std::istringstream text(launcher);
  for (std::string word; text >> word;) words.push_back(word);
  words.push_back(argv[1]);
  words.insert(words.end(), program.begin(), program.end());
  std::vector<char*> command;
  for (std::string& word : words) command.push_back(word.data());
  command.push_back(nullptr);
  execvp(command[0], command.data());
  std::fprintf(stderr, "error: %s cannot be started: %s\n", command[0], std::strerror(errno));
  return 3;
}
