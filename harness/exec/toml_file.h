// TOML files: pyproject.toml of `tidemark exec`, and those of `tidemark fit`.
#pragma once

namespace tidemark {
[[noreturn]] void refuse_toml();
}
#define TOML_ASSERT(expr) \
  ((expr) ? static_cast<void>(0) : ::tidemark::refuse_toml())  // else a file could end the process
#include <toml++/toml.h>

#include <filesystem>

namespace tidemark {

inline constexpr std::uint64_t kMostToml = 4 << 20;  // bytes of a file

/// Throws UsageError in one line, with the line of the file that is not TOML.
toml::table read_toml(const std::filesystem::path& file);

}  // namespace tidemark
