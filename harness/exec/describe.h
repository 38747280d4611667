// The facts of a run of `tidemark exec` for its report.
#pragma once

#include <string>

#include "harness/record/record.h"

namespace tidemark {

/// "<UTC time>-<process>": the same throughout this process.
std::string exec_id();

/// `version`'s of tidemark, the time, the machine, the virtual GPU, the program's torch.
RunRecord describe_exec(int argc, char** argv, const std::string& torch, const RunRecord& version);

}  // namespace tidemark
