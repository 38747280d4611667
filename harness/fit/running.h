// Flags of how programs run, which fit, advise and bisect have.
#pragma once

#include <CLI/CLI.hpp>
#include <array>
#include <string>
#include <vector>

#include "harness/fit/options.h"

namespace tidemark {

inline constexpr std::size_t kPassedFlags = 10;

/// The flags as text.
struct RunningWords {
  std::vector<std::string> gpus;
  std::string capacity, reserve;
  std::array<std::string, kPassedFlags> passed;  // that go on to exec
};

void add_running(CLI::App& app, RunningWords& words, FitOptions& fit);
/// Throws UsageError, in a line that begins with the command.
void take_running(const std::string& command, const RunningWords& words, FitOptions& fit);

/// The folder in which a command keeps what it has made; empty where HOME names none.
std::string usual_cache(const std::string& command);

}  // namespace tidemark
