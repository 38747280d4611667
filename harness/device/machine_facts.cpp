#include "harness/device/machine_facts.h"

#include <ATen/Version.h>
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nccl.h>
#include <torch/headeronly/version.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "harness/device/driver_answer.h"
#include "harness/device/driver_files.h"
#include "harness/device/libraries.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

void add_driver(CudaFacts& facts) {
  const char* named = std::getenv("TIDEMARK_CUDA_DRIVER");
  const auto candidates =
      named != nullptr && *named != 0 ? std::vector<fs::path>{named} : driver_files(kDriver);
  const fs::path ours = virtual_folder() / kDriver;
  std::error_code ignored;
  for (const auto& each : candidates) {
    const fs::path path = fs::absolute(each);
    if (!fs::exists(path, ignored) || fs::equivalent(path, ours, ignored)) continue;
    const DriverAnswer answer = ask_driver(path);
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

}  // namespace

CudaFacts machine_facts() {
  CudaFacts facts = built_with();
  add_driver(facts);
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
