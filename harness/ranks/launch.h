// Start of the ranks: either a launcher has started them, or this process starts them.
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/ranks/link.h"

namespace tidemark {

/// The number of this rank on its machine, as tidemark's own launcher or another one has set it.
int local_rank();

/// The link of this process: to the ranks that tidemark (launch.h), mpirun or srun has started
/// beside it, or of one rank alone. Throws Unavailable (exit code 3) where the launcher's MPI
/// cannot be used.
std::shared_ptr<Link> link_of_launcher();

/// The end of ranks that had not agreed on an exit code.
struct Ending {
  std::string why;            // one line: which rank, and its signal or error, as far as is known
  bool interrupted = false;   // by SIGINT or SIGTERM to the launching process
  std::string brief() const;  // `why` without what follows the first semicolon
};

/// The end of the ranks.
struct Ended {
  int code = 3;  // that they agreed on; 130 where they were interrupted, 3 where one of them died
  std::string again;  // why they want to be started again (ask_again); the code is then none
  std::optional<Ending> early;  // where they ended without a code that they agreed on
};

/// Runs argv (whose first word is a path) as `ranks` ranks on this machine. The first SIGINT or
/// SIGTERM ends the ranks, a second one kills them. `session` is made anew and left to the caller;
/// none: a temporary folder.
Ended launch(int ranks, const std::vector<std::string>& argv,
             const std::filesystem::path& session = {});

/// From a rank that has agreed with the others on the run's exit code: tells it the process that
/// launched us, if it is launch(). Returns what to give to exit().
int leave_with(int code);
/// From one rank, before they end: launch() says that they are to be started again, and why. Only
/// where launched_by_tidemark().
void ask_again(const std::string& why);
/// In a rank: its launcher was launch() above, and not mpirun or srun.
bool launched_by_tidemark();
/// In a rank that tidemark has launched: the session's folder; else empty.
std::filesystem::path session_folder();
/// Writes a file of the session unless another rank has: whether this one did.
bool write_first(const std::filesystem::path& file, const std::string& text);

/// From a rank, to report a fatal error once a run, however many ranks meet it at the same moment.
bool first_to_fail(const std::string& what);

}  // namespace tidemark
