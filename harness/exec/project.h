// Settings of a project for `tidemark exec`: the table [tool.tidemark] of its pyproject.toml.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tidemark {

struct ProjectSettings {
  std::filesystem::path file;
  std::string gpu, capacity, schedule, mode;  // as the flags of these names; empty: not set
  int timeout = 0;                            // seconds
  /// "gpu = l4-24g, mode = math": those that are set.
  std::string text() const;
};

/// Settings of the nearest pyproject.toml with that table, in `folder` or above it. Throws
/// UsageError if such a file is no TOML, or the table has another key, or a value of another type.
std::optional<ProjectSettings> project_settings(const std::filesystem::path& folder);

}  // namespace tidemark
