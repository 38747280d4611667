// The program that a user wants to run: where it is, and which Python it belongs to.
#pragma once

#include <filesystem>
#include <optional>
#include <string>

namespace tidemark {

/// The file that `name` means, as a shell would find it. Throws UsageError.
std::filesystem::path find_program(const std::string& name);

/// The Python that runs this file: the file itself, or the one of its first lines (#!). None for
/// any other program, which may start one.
std::optional<std::filesystem::path> python_of(const std::filesystem::path& program);

/// Throws UsageError where this Python has no torch that the platform can run. `folder`: of the
/// platform's Python modules.
void check_torch(const std::filesystem::path& python, const std::filesystem::path& folder);

}  // namespace tidemark
