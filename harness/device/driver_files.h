// Files of the loader's folders, and of NVIDIA's driver, which does not come with NVIDIA's other
// libraries.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace tidemark {

inline constexpr const char *kDriver = "libcuda.so.1", *kManagement = "libnvidia-ml.so.1";

/// The folders in which the loader looks for libraries that this program needs.
std::vector<std::filesystem::path> search_path();

/// Places in which the driver's library of this name may be: the folders of the loader, the
/// loader's cache, and where containers mount the driver.
std::vector<std::filesystem::path> driver_files(const std::string& name);

}  // namespace tidemark
