// HTML page of a program's run.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

#include "harness/exec/alive.h"

namespace tidemark {

/// The program as it was started, its processes' records (report.h), the verdicts that failed, and
/// the snapshot with the highest peak.
struct ProgramRun {
  std::vector<std::string> program;
  std::string mode, gpu;
  int exit_code = 0;
  const std::vector<nlohmann::json>& records;
  const std::vector<std::string>& failed;
  const HighestPeak& peak;
};

std::string program_page(const ProgramRun& run);

}  // namespace tidemark
