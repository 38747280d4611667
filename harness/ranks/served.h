// A program that runs in a copy of a process which has imported torch already
// (harness/exec/python/tidemark_server.py), in place of a process of its own.
#pragma once

#include <string>
#include <vector>

namespace tidemark {

/// Asks the server at this socket to run a program with the environment, the folder and the files
/// 0, 1 and 2 of this process, waits for its end, and ends this process in the same way. Returns
/// if there is no server, or if it refuses: the program has not started.
void run_served(const std::string& socket, const std::vector<std::string>& argv);

}  // namespace tidemark
