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

/// The libraries that the processes of a program load.
struct Libraries {
  std::string torch;            // the version that they belong to
  std::filesystem::path layer;  // the operator layer
  std::vector<std::filesystem::path> preloaded;
};

/// The libraries in the platform's `folder`, for the torch that tidemark is built with.
Libraries own_libraries(const std::filesystem::path& folder);

/// The libraries for the torch of this Python, which are prepared if they do not exist yet. Throws
/// UsageError if the platform cannot run that torch.
Libraries libraries_for(const std::filesystem::path& python, const std::filesystem::path& folder);

}  // namespace tidemark
