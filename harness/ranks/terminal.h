// Colours and progress of the commands: for a terminal, and not for a file.
#pragma once

#include <string>

namespace tidemark {

/// True if `file` (1: standard output, 2: standard error) is coloured. `wanted` is always, never or
/// auto. auto follows NO_COLOR, CLICOLOR_FORCE, and then the terminal. Under a launcher (mpirun,
/// srun) no output is one's own terminal: mpirun gives a terminal even to ranks whose output goes
/// to a file.
bool in_color(const std::string& wanted = "auto", int file = 1);

/// True if a line of progress on standard error may replace the one before it.
bool shows_progress();

/// In the process that starts the ranks: they give the same answers.
void describe_terminal(const std::string& wanted);

}  // namespace tidemark
