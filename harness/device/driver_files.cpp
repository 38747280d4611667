#include "harness/device/driver_files.h"

#include <dlfcn.h>

#include <algorithm>
#include <iterator>

#include "harness/virtual/device/text.h"

namespace tidemark {

namespace fs = std::filesystem;

std::vector<fs::path> search_path() {
  void* self = dlopen(nullptr, RTLD_NOW);
  Dl_serinfo size{};
  if (self == nullptr || dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return {};
  std::vector<char> room(size.dls_size);
  auto* search_info = reinterpret_cast<Dl_serinfo*>(room.data());
  search_info->dls_size = size.dls_size;
  search_info->dls_cnt = size.dls_cnt;
  if (dlinfo(self, RTLD_DI_SERINFO, search_info) != 0) return {};
  std::vector<fs::path> folders;
  for (unsigned i = 0; i < search_info->dls_cnt; ++i)
    folders.emplace_back(search_info->dls_serpath[i].dls_name);
  return folders;
}

namespace {

// Paths that end in this name, from the loader's cache: a table of strings that end in 0.
std::vector<fs::path> cached(const std::string& name) {
  const std::string all = text_of_file("/etc/ld.so.cache").value_or("");
  const std::string tail = "/" + name + '\0';
  std::vector<fs::path> paths;
  for (auto at = all.find(tail); at != std::string::npos; at = all.find(tail, at + 1)) {
    const auto begin = all.rfind('\0', at) + 1;
    paths.emplace_back(all.substr(begin, at + tail.size() - 1 - begin));
  }
  return paths;
}

}  // namespace

std::vector<fs::path> driver_files(const std::string& name) {
  std::vector<fs::path> paths;
  for (const auto& folder : search_path()) paths.push_back(folder / name);
  std::ranges::copy(cached(name), std::back_inserter(paths));
  for (const char* folder : {"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"})  // as containers mount
    paths.push_back(fs::path(folder) / name);
  return paths;
}

}  // namespace tidemark
