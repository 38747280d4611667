// The cause of a run of `tidemark exec` without a result, as data for the program that started it.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tidemark {

struct Cause {
  int code = 0;         // exit code of exec
  std::string process;  // that failed first ("rank 1"); "": exec itself has refused or failed
  std::string text;     // one line
};

/// Writes the cause as JSON into the file that ExecSettings::cause names, if it names one. The
/// first cause of a run stays.
void leave_cause(const Cause& cause);

/// Nothing where no cause was left.
std::optional<Cause> read_cause(const std::filesystem::path& file);

}  // namespace tidemark
