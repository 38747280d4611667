// `tidemark exec`: a PyTorch program on the virtual platform, and the report of its peaks.
#pragma once

namespace tidemark {

/// argv[1] is "exec". Returns the program's exit code, or 1 where it is 0 and a wanted verdict
/// fails. Throws UsageError.
int exec_program(int argc, char** argv);

}  // namespace tidemark
