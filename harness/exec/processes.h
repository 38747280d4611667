// The processes of `tidemark exec`: start, signals, end.
#pragma once

#include <filesystem>
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

/// Starts all of them, `at_once` at a time, and waits. A process that waits for another one has the
/// file `NAME.waits` in the folder `notes` and is not counted; nor is one with `NAME.ready`, which
/// goes on when the file is removed. One that has ended gets `NAME.ended` there. Where `together`,
/// the first that fails ends the others. SIGINT, SIGTERM and SIGHUP are passed on. What the program
/// has left running at its end is killed and told in `left`. Returns the exit code of the first
/// that failed (128 + signal), or 0.
int run_processes(const std::vector<Start>& starts, int at_once, bool together,
                  const std::filesystem::path& notes, int& left);

}  // namespace tidemark
