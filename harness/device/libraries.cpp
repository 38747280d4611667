#include "harness/device/libraries.h"

#include <ATen/Version.h>
#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <cstdlib>

#include "harness/device/driver_files.h"
#include "harness/virtual/device/text.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

/// Path of the library of this name of the virtual platform in this folder.
fs::path virtual_place(const fs::path& folder, const std::string& name) {
  return (name == kManagement ? folder / "nvml" : folder) / name;
}

fs::path path_of(const void* function) {
  Dl_info info{};
  return dladdr(function, &info) != 0 ? fs::path(info.dli_fname) : fs::path();
}

}  // namespace

fs::path virtual_folder() {
  std::error_code ignored;
  // The last one: what stands in LD_LIBRARY_PATH, which comes first, is not ours.
  fs::path last_match;
  for (const auto& folder : search_path())
    if (fs::exists(folder / "libtidemark_device.so.1", ignored)) last_match = folder;
  return last_match;
}

fs::path staged_folder() { return virtual_folder().parent_path() / "staged"; }

bool collectives_are_staged() {
  return std::ranges::any_of(loaded_libraries(),
                             [](const Library& each) { return each.maker == Maker::staged; });
}

std::vector<Library> loaded_libraries() {
  std::vector<Library> libraries;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        static_cast<std::vector<Library>*>(to)->push_back({{}, info->dlpi_name, Maker::nvidia});
        return 0;
      },
      &libraries);
  const fs::path folder = virtual_folder(), staged = staged_folder();
  std::error_code ignored;
  std::erase_if(libraries, [&](Library& each) {
    each.name = each.path.filename().string();
    const fs::path ours = virtual_place(folder, each.name);
    if (fs::equivalent(each.path, ours, ignored))
      each.maker = Maker::virtual_platform;
    else if (fs::equivalent(each.path, staged / each.name, ignored))
      each.maker = Maker::staged;
    return folder.empty() || each.name.empty() || !fs::exists(ours, ignored);
  });
  return libraries;
}

fs::path management_library() {
  const fs::path ours = virtual_place(virtual_folder(), kManagement);
  std::error_code ignored;
  std::vector<fs::path> all;
  for (const auto& library : loaded_libraries()) {
    if (library.name != kDriver) continue;
    if (library.maker == Maker::virtual_platform) return ours;
    all.push_back(library.path.parent_path() / kManagement);
  }
  std::ranges::copy(driver_files(kManagement), std::back_inserter(all));
  for (const auto& path : all)
    if (fs::exists(path, ignored) && !fs::equivalent(path, ours, ignored)) return path;
  return {};
}

std::vector<std::string> cuda_folders() {
  std::vector<std::string> folders;
  if (const char* folders_named = std::getenv("TIDEMARK_CUDA_LIBRARIES")) {
    TextIn all(folders_named);
    for (std::string each; std::getline(all, each, ':');)
      if (!each.empty()) folders.push_back(fs::absolute(each).string());
    return folders;
  }
  const fs::path torch = path_of(reinterpret_cast<const void*>(&at::show_config));
  std::error_code ignored;
  // A torch that is a link has them beside what it points to, or beside itself.
  for (const auto& library : {fs::canonical(torch, ignored), fs::absolute(torch)}) {
    const fs::path beside = library.parent_path().parent_path().parent_path() / "nvidia";
    if (!fs::is_directory(beside, ignored)) continue;
    for (const auto& each : entries_of(beside))
      if (const fs::path lib = each.path() / "lib"; fs::is_directory(lib, ignored))
        folders.push_back(lib.string());
    break;
  }
  std::ranges::sort(folders);
  return folders;
}

}  // namespace tidemark
