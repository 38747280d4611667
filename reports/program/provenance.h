// How the run of a program was made, in one line and its command.
#pragma once

#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

/// "torch 2.11.0, tidemark 1.0.0 (417a3af7), virtual h100-80g with 78.3 GiB for PyTorch, mode
/// known, schedule lagging, 2 ranks of 512, 2026-11-30". It names no machine.
std::string provenance(const Report& report);

/// "tidemark exec --capacity 1GiB -- python train.py": all flags but --report, --out, --color and
/// --force. An absolute path is cut to its last name.
std::string command_of(const Report& report);
/// The same of another command that runs a program: "tidemark fit --vary batch=1..64 -- ...".
std::string command_of(const RunRecord& run, const std::string& command,
                       const std::vector<std::string>& program);
/// "tidemark 1.0.0 (417a3af7)".
std::string version_text(const RunRecord& run);

}  // namespace tidemark
