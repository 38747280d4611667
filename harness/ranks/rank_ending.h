// End of a rank's process: its parent process waits for it and records the signal or the exit code,
// because mpirun passes on a number and not the rank.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tidemark {

/// Called first thing in a rank that launch() has started, while the process has one thread: from
/// here on a child process is the rank, and this one waits for it, writes down how it ended and
/// ends the same way. Returns in the child alone; elsewhere, and where no child can be made, it
/// returns at once.
void record_how_this_rank_ends();

struct RankEnding {
  std::string what;  // "rank 2 was killed (signal 9)", "rank 0 ended with exit code 7"
  std::filesystem::file_time_type when;
};
/// The first rank of a session that did not end well; none where that is not known.
std::optional<RankEnding> first_rank_to_end(const std::filesystem::path& session);

}  // namespace tidemark
