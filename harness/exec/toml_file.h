// TOML files: pyproject.toml of `tidemark exec`, and those of `tidemark fit`.
#pragma once

#include <toml++/toml.h>

#include <filesystem>

namespace tidemark {

inline constexpr std::uint64_t kMostToml = 4 << 20;  // bytes of a file

/// Throws UsageError in one line, with the line of the file that is not TOML.
toml::table read_toml(const std::filesystem::path& file);

}  // namespace tidemark
