// The values of TIDEMARK_* variables that mean the same to every command.
#pragma once

namespace tidemark {

/// Throws UsageError in one line for the first that no command could take, before anything starts.
/// Those that are flags too (harness/help.h) may be a list, or bytes with a unit, as the flag.
void check_variables();

}  // namespace tidemark
