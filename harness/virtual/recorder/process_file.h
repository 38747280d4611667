// File beside a record, PID.json: races, calls of NCCL and answers of a process. A thread that
// Python does not know writes it each half second, for a process that may be killed. A thread of
// Python's allocates objects, and so moves the moments at which Python's collector frees cycles:
// the peaks of a program with cycles were others in each run.
#pragma once

#include <string>

namespace tidemark::recorder {

/// Begins to write the file beside `record`, "PID.record".
void begin_process_file(const std::string& record);
/// Writes the file once more. `ended`: for the last time, and a failure is said on stderr; else it
/// goes on.
void end_process_file(bool ended);
/// In the child of a fork: the file stays the parent's.
void leave_process_file();

}  // namespace tidemark::recorder
