// The processes of `tidemark exec`: start, signals, end.
#pragma once

#include <map>
#include <string>
#include <vector>

namespace tidemark {

/// One process to be started, with what its environment has beside ours.
struct Start {
  std::string name;  // "rank 3", for messages
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;
};

/// Starts all of them, `at_once` at a time, and waits. Where `together`, the first that fails ends
/// the others. SIGINT, SIGTERM and SIGHUP are passed on. What the program has left running at its
/// end is killed and told in `left`. Returns the exit code of the first that failed (128 + signal),
/// or 0.
int run_processes(const std::vector<Start>& starts, int at_once, bool together, int& left);

}  // namespace tidemark
