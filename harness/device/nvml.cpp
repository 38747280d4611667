#include "harness/device/nvml.h"

#include <dlfcn.h>
#include <fmt/format.h>
#include <nvml.h>
#include <signal.h>

#include <algorithm>
#include <array>
#include <cerrno>

#include "harness/device/libraries.h"

namespace tidemark {
namespace {

#define TIDEMARK_NVML(function) \
  decltype(::function)* function = find<decltype(::function)>(#function)

struct Nvml {
  std::string wrong;  // why it cannot be asked
  void* library = load();
  TIDEMARK_NVML(nvmlInit_v2);
  TIDEMARK_NVML(nvmlErrorString);
  TIDEMARK_NVML(nvmlSystemGetDriverVersion);
  TIDEMARK_NVML(nvmlDeviceGetHandleByUUID);
  TIDEMARK_NVML(nvmlDeviceGetMigMode);
  TIDEMARK_NVML(nvmlDeviceGetMemoryInfo_v2);
  TIDEMARK_NVML(nvmlDeviceGetComputeRunningProcesses_v3);

  Nvml() {
    if (wrong.empty()) wrong = failure("nvmlInit_v2", nvmlInit_v2());
  }

  void* load() {
    const auto path = management_library();
    void* loaded = path.empty() ? nullptr : dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (loaded == nullptr)
      wrong = path.empty() ? "there is no libnvidia-ml.so.1 beside the driver"
                           : fmt::format("NVML cannot be loaded: {}", dlerror());
    return loaded;
  }
  template <class Function>
  Function* find(const char* name) {
    if (!wrong.empty()) return nullptr;
    void* function = dlsym(library, name);
    if (function == nullptr)
      wrong = fmt::format("this driver's NVML has no {}: update the driver", name);
    return reinterpret_cast<Function*>(function);
  }
  std::string failure(const char* call, nvmlReturn_t error) const {
    return error == NVML_SUCCESS ? "" : fmt::format("{}: {}", call, nvmlErrorString(error));
  }
};

const Nvml& nvml() {
  static const Nvml& instance = *new Nvml;
  return instance;
}

/// "GPU-" or "MIG-" and the bytes, as NVML writes them.
std::string uuid_text(const char* kind, const char* uuid) {
  std::string text = kind;
  for (int i = 0; i < 16; ++i)
    text += fmt::format("{}{:02x}", i == 4 || i == 6 || i == 8 || i == 10 ? "-" : "",
                        static_cast<unsigned char>(uuid[i]));
  return text;
}

// CUDA gives a MIG instance's own UUID. Of a whole GPU that is cut up, NVML's figures would be
// those of all its instances.
std::string find_device(const char* uuid, nvmlDevice_t* device) {
  if (nvml().nvmlDeviceGetHandleByUUID(uuid_text("MIG-", uuid).c_str(), device) == NVML_SUCCESS)
    return "";
  const auto error = nvml().nvmlDeviceGetHandleByUUID(uuid_text("GPU-", uuid).c_str(), device);
  if (error != NVML_SUCCESS) return nvml().failure("nvmlDeviceGetHandleByUUID", error);
  unsigned mig = 0, pending = 0;
  if (nvml().nvmlDeviceGetMigMode(*device, &mig, &pending) == NVML_SUCCESS && mig != 0)
    return "the GPU is in MIG mode, and CUDA does not say which instance this is";
  return "";
}

}  // namespace

GpuUse gpu_use(const char* uuid) {
  GpuUse use;
  use.unknown = nvml().wrong;
  nvmlDevice_t device = nullptr;
  if (use.unknown.empty()) use.unknown = find_device(uuid, &device);
  if (!use.unknown.empty()) return use;

  std::vector<nvmlProcessInfo_t> processes(32);
  nvmlReturn_t error = NVML_ERROR_INSUFFICIENT_SIZE;
  for (int tries = 0; tries < 8 && error == NVML_ERROR_INSUFFICIENT_SIZE; ++tries) {
    unsigned count = static_cast<unsigned>(processes.size());
    error = nvml().nvmlDeviceGetComputeRunningProcesses_v3(device, &count, processes.data());
    processes.resize(error == NVML_SUCCESS ? count : 2 * std::max<std::size_t>(count, 32));
  }
  use.unknown = nvml().failure("nvmlDeviceGetComputeRunningProcesses_v3", error);
  nvmlMemory_v2_t memory{nvmlMemory_v2, 0, 0, 0, 0};
  if (use.unknown.empty())
    use.unknown = nvml().failure("nvmlDeviceGetMemoryInfo_v2",
                                 nvml().nvmlDeviceGetMemoryInfo_v2(device, &memory));
  if (!use.unknown.empty()) return use;
  use.used = static_cast<Bytes>(memory.used);
  use.reserved = static_cast<Bytes>(memory.reserved);
  for (const auto& each : processes) {
    const int pid = static_cast<int>(each.pid);
    GpuUse::Process process{pid, std::nullopt, kill(pid, 0) == 0 || errno == EPERM};
    if (each.usedGpuMemory != NVML_VALUE_NOT_AVAILABLE)
      process.used = static_cast<Bytes>(each.usedGpuMemory);
    use.processes.push_back(process);
  }
  return use;
}

OutsideOwners told_apart(const GpuUse& use, int pid, Bytes allocator) {
  OutsideOwners owners;
  const auto mine = std::ranges::find(use.processes, pid, &GpuUse::Process::pid);
  const auto stranger = std::ranges::find(use.processes, false, &GpuUse::Process::here);
  if (!use.unknown.empty()) {
    owners.unknown = use.unknown;
  } else if (stranger != use.processes.end()) {
    owners.unknown = fmt::format(
        "NVML reports host process ids (such as {}), which this container cannot see (run it with "
        "--pid=host)",
        stranger->pid);
  } else if (mine == use.processes.end()) {
    owners.unknown =
        fmt::format("process {} is not among the {} that NVML names", pid, use.processes.size());
  } else if (!mine->used) {
    owners.unknown = "the driver does not tell how much of the GPU's memory a process has";
  } else if (*mine->used < allocator || use.used < *mine->used) {
    owners.unknown = fmt::format(
        "NVML's figures do not agree: {} bytes of the GPU are in use, {} by this process, whose "
        "allocator has {}",
        use.used, *mine->used, allocator);
  } else {
    owners.own = *mine->used - allocator;
    owners.others = use.used - *mine->used;
    owners.driver = use.reserved;
  }
  return owners;
}

std::string driver_version() {
  std::array<char, NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE> text{};
  if (!nvml().wrong.empty() ||
      nvml().nvmlSystemGetDriverVersion(text.data(), text.size()) != NVML_SUCCESS)
    return "";
  return text.data();
}

}  // namespace tidemark
