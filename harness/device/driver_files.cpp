#include "harness/device/driver_files.h"

#include <dlfcn.h>

#include <algorithm>
#include <fstream>
#include <iterator>

namespace tidemark {

namespace fs = std::filesystem;

std::vector<fs::path> search_path() {
  void* self = dlopen(nullptr, RTLD_NOW);
  Dl_serinfo size{};
  if (self == nullptr || dlinfo(self, RTLD_DI_SERINFOSIZE, &size) != 0) return {};
  std::vector<char> room(size.dls_size);
  auto* found = reinterpret_cast<Dl_serinfo*>(room.data());
  found->dls_size = size.dls_size;
  found->dls_cnt = size.dls_cnt;
  if (dlinfo(self, RTLD_DI_SERINFO, found) != 0) return {};
  std::vector<fs::path> folders;
  for (unsigned i = 0; i < found->dls_cnt; ++i)
    folders.emplace_back(found->dls_serpath[i].dls_name);
  return folders;
}

namespace {

// Paths that end in this name, from the loader's cache: a table of strings that end in 0.
std::vector<fs::path> cached(const std::string& name) {
  std::ifstream file("/etc/ld.so.cache", std::ios::binary);
  const std::string all{std::istreambuf_iterator<char>(file), {}};
  const std::string tail = "/" + name + '\0';
  std::vector<fs::path> found;
  for (auto at = all.find(tail); at != std::string::npos; at = all.find(tail, at + 1)) {
    const auto begin = all.rfind('\0', at) + 1;
    found.emplace_back(all.substr(begin, at + tail.size() - 1 - begin));
  }
  return found;
}

}  // namespace

std::vector<fs::path> driver_files(const std::string& name) {
  std::vector<fs::path> found;
  for (const auto& folder : search_path()) found.push_back(folder / name);
  std::ranges::copy(cached(name), std::back_inserter(found));
  for (const char* folder : {"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"})  // as containers mount
    found.push_back(fs::path(folder) / name);
  return found;
}

}  // namespace tidemark
