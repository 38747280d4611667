#include <ATen/ATen.h>
#include <cuda_runtime_api.h>
#include <dlfcn.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <nccl.h>
#include <torch/headeronly/version.h>
#include <unistd.h>

#include <chrono>
#include <random>

#include "harness/cli/commands.h"
#include "harness/device/libraries.h"
#include "harness/device/nvml.h"
#include "harness/device/platform.h"
#include "harness/ranks/local_link.h"

extern char** environ;

namespace tidemark {
namespace {

// An allow-list: an environment holds secrets, a report is passed around.
bool recorded(const std::string& name) {
  static const char* kExact[] = {"PYTORCH_CUDA_ALLOC_CONF", "PYTORCH_ALLOC_CONF",
                                 "CUDA_VISIBLE_DEVICES",    "CUDA_DEVICE_MAX_CONNECTIONS",
                                 "NVIDIA_TF32_OVERRIDE",    "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE"};
  static const char* kPrefix[] = {"CUBLAS_", "NCCL_", "TORCH_NCCL_", "TIDEMARK_"};
  for (const char* exact : kExact)
    if (name == exact) return true;
  for (const char* prefix : kPrefix)
    if (name.starts_with(prefix))
      return name != "TIDEMARK_SESSION" && name != kRank && name != kSocket;
  return false;
}

std::string nccl_version() {
  int version = 0;
  if (ncclGetVersion(&version) != ncclSuccess) return "unknown";
  return fmt::format("{}.{}.{}", version / 10000, version / 100 % 100, version % 100);
}

// As far as the library tells.
std::string version_of(const std::string& library) {
  const auto ask = [](auto* function, const char* name) {
    return reinterpret_cast<decltype(function)>(dlsym(RTLD_DEFAULT, name));
  };
  int number = 0;
  if (library.starts_with("libnvidia-ml.")) return driver_version();
  if (library.starts_with("libnccl.")) return nccl_version();
  if (library.starts_with("libcudart.")) cudaRuntimeGetVersion(&number);
  if (library.starts_with("libcuda.")) cudaDriverGetVersion(&number);
  if (number != 0) return fmt::format("{}.{}", number / 1000, number % 1000 / 10);
  using Version = std::size_t();
  Version* version = nullptr;
  if (library.starts_with("libcublas"))  // cuBLAS and cuBLASLt are one package
    version = ask(version, "cublasLtGetVersion");
  if (library.starts_with("libcudnn.")) version = ask(version, "cudnnGetVersion");
  const std::size_t all = version != nullptr ? version() : 0;
  return all == 0 ? "" : fmt::format("{}.{}.{}", all / 10000, all / 100 % 100, all % 100);
}

const char* name_of(Maker maker) {
  switch (maker) {
    case Maker::virtual_platform:
      return "virtual";
    case Maker::staged:
      return "staged";
    case Maker::nvidia:
      return "NVIDIA";
  }
  return "";
}

}  // namespace

std::string version_text() {
  driver_version();  // NVIDIA's NVML is loaded when it is first asked
  std::string text =
      fmt::format("tidemark {} ({})\nplatform {}: {}\n{:<25}{}", TIDEMARK_VERSION, TIDEMARK_GIT,
                  platform().kind(), platform().profile(), "torch", TORCH_VERSION);
  for (const auto& library : loaded_libraries())
    text += fmt::format("\n{:<25}{:<10}{}", library.name, version_of(library.name),
                        name_of(library.maker));
  return text;
}

std::string host_name() {
  char host[256] = {};
  gethostname(host, sizeof host - 1);
  return host;
}

RunRecord describe_run(int argc, char** argv) {
  RunRecord run;
  const auto now = std::chrono::floor<std::chrono::seconds>(std::chrono::system_clock::now());
  run.started =
      fmt::format("{:%Y-%m-%dT%H:%M:%SZ}", fmt::gmtime(std::chrono::system_clock::to_time_t(now)));
  if (const char* given = std::getenv(kRunId))
    run.id = given;
  else
    run.id = fmt::format("{:%Y%m%d-%H%M%S}-{:06x}",
                         fmt::gmtime(std::chrono::system_clock::to_time_t(now)),
                         std::random_device{}() & 0xffffff);
  run.tidemark = TIDEMARK_VERSION;
  run.git = TIDEMARK_GIT;
  run.host = host_name();
  run.torch = TORCH_VERSION;
  run.nccl = nccl_version() + (collectives_are_staged() ? " (staged)" : "");
  run.argv.assign(argv, argv + argc);
  run.argv[0] = "tidemark";
  run.device_kind = platform().kind();
  run.profile = platform().profile();
  run.capacity_bytes = platform().capacity();
  if (auto* device = virtual_device()) run.profile_bytes = device->profile_capacity();
  for (char** entry = environ; *entry != nullptr; ++entry) {
    const std::string text(*entry);
    const auto equals = text.find('=');
    if (recorded(text.substr(0, equals))) run.env[text.substr(0, equals)] = text.substr(equals + 1);
  }
  return run;
}

}  // namespace tidemark
