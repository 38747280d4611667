#include "harness/device/libraries.h"

#include <ATen/Version.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <link.h>
#include <nccl.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <sstream>
#include <string_view>

#include "harness/ranks/leave.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

// Libraries that come with the driver, not with the other libraries of NVIDIA.
constexpr const char *kDriver = "libcuda.so.1", *kManagement = "libnvidia-ml.so.1";
constexpr int kPatience = 30000;  // ms; a machine with many GPUs takes seconds to start

// The folders in which the loader looks for what this program needs.
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

// Places in which a library of the driver may be.
std::vector<fs::path> candidates(const std::string& name) {
  std::vector<fs::path> found;
  for (const auto& folder : search_path()) found.push_back(folder / name);
  std::ranges::copy(cached(name), std::back_inserter(found));
  for (const char* folder : {"/usr/local/nvidia/lib64", "/usr/lib/wsl/lib"})  // as containers mount
    found.push_back(fs::path(folder) / name);
  return found;
}

std::vector<fs::path> driver_candidates() {
  if (const char* said = std::getenv("TIDEMARK_CUDA_DRIVER"); said != nullptr) return {said};
  return candidates(kDriver);
}

template <typename Function>
Function* find(void* library, const char* name) {
  return library == nullptr ? nullptr : reinterpret_cast<Function*>(dlsym(library, name));
}

struct Answer {
  bool asked = false;
  int error = 0, version = 0, devices = 0;
};

// In a process of its own: a driver that hangs or dies must not take this one along, and what it
// loads blocks no other process.
Answer ask(const fs::path& path) {
  std::array<int, 2> pipe{};
  if (pipe2(pipe.data(), O_CLOEXEC) != 0) return {};
  const pid_t asking = fork();
  if (asking == 0) {
    Answer answer;
    // The virtual driver's functions are visible to all libraries: this one's calls must reach its
    // own.
    void* library = dlopen(path.c_str(), RTLD_NOW | (kSanitized ? 0 : RTLD_DEEPBIND));
    auto* init = find<int(unsigned)>(library, "cuInit");
    auto* version = find<int(int*)>(library, "cuDriverGetVersion");
    auto* count = find<int(int*)>(library, "cuDeviceGetCount");
    if (init != nullptr && version != nullptr && count != nullptr) {
      answer = {true, init(0), 0, 0};
      version(&answer.version);
      if (answer.error == 0) answer.error = count(&answer.devices);
    }
    [[maybe_unused]] const auto written = write(pipe[1], &answer, sizeof answer);
    _exit(0);
  }
  close(pipe[1]);
  Answer answer{true, kSilent, 0, 0};  // where it says nothing
  pollfd waiting{pipe[0], POLLIN, 0};
  if (asking > 0 && poll(&waiting, 1, kPatience) == 1) {
    Answer said;
    if (read(pipe[0], &said, sizeof said) == sizeof said) answer = said;
  }
  close(pipe[0]);
  if (asking > 0) {
    kill(asking, SIGKILL);
    waitpid(asking, nullptr, 0);
  }
  return answer;
}

void ask_driver(CudaFacts& facts) {
  const fs::path ours = virtual_folder() / kDriver;
  std::error_code ignored;
  for (const auto& each : driver_candidates()) {
    const fs::path path = fs::absolute(each);
    if (!fs::exists(path, ignored) || fs::equivalent(path, ours, ignored)) continue;
    const Answer answer = ask(path);
    if (!answer.asked) continue;  // no driver, or of another architecture
    facts.driver = path.string();
    facts.driver_error = answer.error;
    facts.driver_version = answer.version;
    facts.devices = answer.devices;
    return;
  }
}

CudaFacts built_with() {
  CudaFacts facts;
  facts.built_cuda = CUDART_VERSION;
  facts.built_nccl = NCCL_VERSION_CODE;
  facts.built_torch = TORCH_VERSION;
  if (const char* visible = std::getenv("CUDA_VISIBLE_DEVICES")) facts.visible = visible;
  return facts;
}

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
  fs::path found;  // the last one: what stands in LD_LIBRARY_PATH, which comes first, is not ours
  for (const auto& folder : search_path())
    if (fs::exists(folder / "libtidemark_device.so.1", ignored)) found = folder;
  return found;
}

fs::path staged_folder() { return virtual_folder().parent_path() / "staged"; }

bool collectives_are_staged() {
  return std::ranges::any_of(loaded_libraries(),
                             [](const Library& each) { return each.maker == Maker::staged; });
}

std::vector<Library> loaded_libraries() {
  std::vector<Library> found;
  dl_iterate_phdr(
      [](dl_phdr_info* info, std::size_t, void* to) {
        static_cast<std::vector<Library>*>(to)->push_back({{}, info->dlpi_name, Maker::nvidia});
        return 0;
      },
      &found);
  const fs::path folder = virtual_folder(), staged = staged_folder();
  std::error_code ignored;
  std::erase_if(found, [&](Library& each) {
    each.name = each.path.filename().string();
    const fs::path ours = virtual_place(folder, each.name);
    if (fs::equivalent(each.path, ours, ignored))
      each.maker = Maker::virtual_platform;
    else if (fs::equivalent(each.path, staged / each.name, ignored))
      each.maker = Maker::staged;
    return folder.empty() || each.name.empty() || !fs::exists(ours, ignored);
  });
  return found;
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
  std::ranges::copy(candidates(kManagement), std::back_inserter(all));
  for (const auto& path : all)
    if (fs::exists(path, ignored) && !fs::equivalent(path, ours, ignored)) return path;
  return {};
}

std::vector<std::string> cuda_folders() {
  std::vector<std::string> folders;
  if (const char* said = std::getenv("TIDEMARK_CUDA_LIBRARIES")) {
    std::istringstream all(said);
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
    for (const auto& each : fs::directory_iterator(beside, ignored))
      if (const fs::path lib = each.path() / "lib"; fs::is_directory(lib, ignored))
        folders.push_back(lib.string());
    break;
  }
  std::ranges::sort(folders);
  return folders;
}

CudaFacts machine_facts() {
  CudaFacts facts = built_with();
  ask_driver(facts);
  const auto folders = cuda_folders();
  std::error_code ignored;
  for (const auto& library : loaded_libraries()) {
    if (library.name == kDriver || library.name == kManagement ||
        library.name.starts_with("libtidemark_"))
      continue;
    if (std::ranges::none_of(folders, [&](const std::string& folder) {
          return fs::exists(fs::path(folder) / library.name, ignored);
        }))
      facts.missing.push_back(library.name);
  }
  std::ranges::sort(facts.missing);
  facts.place =
      folders.empty() ? "nvidia/ beside torch" : fmt::format("{}", fmt::join(folders, ":"));
  return facts;
}

CudaFacts library_facts() {
  CudaFacts facts = built_with();
  facts.driver = "the driver";
  for (const auto& library : loaded_libraries())
    if (library.name == kDriver) facts.driver = library.path.string();
  if (auto error = cudaDriverGetVersion(&facts.driver_version); error != cudaSuccess)
    facts.runtime_error = cudaGetErrorString(error);
  if (auto error = cudaGetDeviceCount(&facts.devices); error == cudaErrorNoDevice)
    facts.devices = 0;
  else if (error != cudaSuccess)
    facts.runtime_error = cudaGetErrorString(error);
  if (!facts.runtime_error.empty()) {
    facts.devices = 1;  // that error is what has to be said
    return facts;
  }
  ncclGetVersion(&facts.nccl);
  const std::string config = at::show_config();  // "... TORCH_VERSION=2.11.0, USE_CUDA=ON, ..."
  if (const auto at = config.find("TORCH_VERSION="); at != std::string::npos) {
    const auto begin = at + std::string_view("TORCH_VERSION=").size();
    facts.torch = config.substr(begin, config.find(',', begin) - begin);
  }
  return facts;
}

}  // namespace tidemark
