// The first line of `tidemark exec`, and how long a program took, which the next one says.
#pragma once

#include <string>

#include "harness/exec/options.h"
#include "harness/record/record.h"

namespace tidemark {

/// The first line that a user sees: which GPU, what computes losses, and how long the program took
/// last time.
std::string first_line(const ExecOptions& exec, const std::string& host);

/// So that the next run of the program says how long it takes. Never harms this one.
void remember(const ExecOptions& exec, const std::string& host, Ns took);

}  // namespace tidemark
