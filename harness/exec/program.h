// The program that a user wants to run: where it is, and which Python it belongs to.
#pragma once

#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace tidemark {

/// The file that `name` means, as a shell would find it. Throws UsageError.
std::filesystem::path find_program(const std::string& name);

/// The Python that runs this file: the file itself, or the one of its first lines (#!). None for
/// any other program, which may start one.
std::optional<std::filesystem::path> python_of(const std::filesystem::path& program);

/// What the processes of a program get.
struct Libraries {
  std::string torch;            // the version that they belong to
  std::filesystem::path layer;  // the operator layer
  std::vector<std::filesystem::path> preloaded;
};

/// Those of the platform's `folder`, for the torch that tidemark is built with.
Libraries own_libraries(const std::filesystem::path& folder);

/// Those for the torch of this Python, which are prepared where they are not there yet. Throws
/// UsageError where the platform cannot run it.
Libraries libraries_for(const std::filesystem::path& python, const std::filesystem::path& folder);

}  // namespace tidemark
