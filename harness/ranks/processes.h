// Processes that tidemark starts, ranks of a run or a program under `tidemark exec`: start,
// signals, end.
#pragma once

#include <sys/types.h>

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tidemark {

/// One process to be started, with the variables that its environment has beside ours.
struct Start {
  std::string name;  // "rank 3", for messages
  std::vector<std::string> argv;
  std::map<std::string, std::string> environment;
  int limit = 0;         // seconds after which it is asked to end; 0: none
  std::string server{};  // socket of a process that has imported torch (served.h); empty: none
  std::string log{};     // file of its output, and it reads nothing; empty: those of this process
};

/// The end of all of them.
struct ProcessesEnd {
  int code = 0;            // exit code of the first that failed (128 + signal), or 0
  int signal = 0;          // SIGINT, SIGTERM, SIGHUP or SIGQUIT that this process has got
  std::string first_name;  // "rank 1": the first that failed, if one did
  std::string first;       // "rank 1 was ended by signal 9 (Killed)"
  std::filesystem::file_time_type first_at;   // when that was seen
  std::map<std::string, std::string> killed;  // by name: "was ended by signal 9 (Killed)"
  std::vector<std::string> messages;          // lines for the user, in their order
  int left = 0;                               // processes that were still running, and were killed
};

/// The cores that this process may use.
int cores();

/// From here on this process goes on where what reads its output has ended (`tidemark run | head`).
/// Programs that it starts do as they did.
void outlive_readers();

/// From here on SIGINT, SIGTERM, SIGHUP and SIGQUIT do not end this process, so that it can take
/// away what it has made; those that were ignored before (nohup) stay so.
void hear_interruptions();
/// The one that has come and that run_processes has not passed on; 0: none.
int interruption();

/// Starts a process, which ends with this one. `own_group`: one of several; one alone stays in the
/// terminal's group. Throws UsageError where no process can be started.
pid_t start_process(const Start& what, bool own_group);

/// Starts all of them, `at_once` at a time, and waits. A process that waits for another one has the
/// file `NAME.waits` in the folder `notes` and is not counted; nor is one with `NAME.ready`, which
/// goes on when the file is removed. One that has ended gets `NAME.ended` there, and `NAME.late` if
/// it was asked to end at its limit. Where `together`,
/// the first that fails ends the others. SIGINT, SIGTERM, SIGHUP and SIGQUIT are passed on, unless
/// they were ignored before (nohup); a second one kills. Throws UsageError where no process can be
/// started.
ProcessesEnd run_processes(const std::vector<Start>& starts, int at_once, bool together,
                           const std::filesystem::path& notes);

}  // namespace tidemark
