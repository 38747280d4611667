// How a run was made: the words and variables on which its figures may depend.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// True for a variable that tidemark sets for its own processes, or that says how a run looks.
bool is_own_variable(const std::string& name);
/// The run's variables without those.
std::map<std::string, std::string> telling_variables(const RunRecord& run);

/// The run's words without the name of the program, without flags that say where it writes, how it
/// looks or what is asked of its figures, and, of a program's words, without its output folders,
/// the identity of its job and the addresses at which its ranks meet.
std::vector<std::string> telling_arguments(const RunRecord& run);

/// The settings on which figures of any trial of the run depend and which its record does not have:
/// "PYTORCH_ALLOC_CONF=expandable_segments:True"; empty: none.
std::string run_settings(const RunRecord& run);

}  // namespace tidemark
