// NVML's devices: the machine's GPUs, whatever CUDA_VISIBLE_DEVICES leaves this process of them.
// Each process has virtual devices of its own, so no other process has memory on them.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <initializer_list>
#include <optional>
#include <vector>

#include "harness/virtual/device/attributes.h"
#include "harness/virtual/device/memory.h"
#include "harness/virtual/device/peers.h"
#include "harness/virtual/device/stream.h"
#include "harness/virtual/nvml/state.h"

namespace device = tidemark::device;

namespace {

/// The machine's number of each device that this process sees; none where CUDA_VISIBLE_DEVICES has
/// names and no numbers. A program may have made the list shorter since the devices were counted.
std::optional<std::vector<unsigned>> numbers() {
  std::vector<unsigned> all;
  const char* list = std::getenv("CUDA_VISIBLE_DEVICES");
  for (unsigned d = 0; d < static_cast<unsigned>(device::device_count()); ++d) {
    if (list == nullptr || (*list == '\0' && d > 0)) {
      unsigned next = 0;
      while (std::ranges::count(all, next) > 0) ++next;
      all.push_back(next);
      continue;
    }
    char* end = nullptr;
    const unsigned long number = std::strtoul(list, &end, 10);
    if (end == list || number > 1000) return std::nullopt;
    all.push_back(static_cast<unsigned>(number));
    list = *end == ',' ? end + 1 : end;
  }
  return all;
}

// Handles: 1 + a device's number in CUDA; beyond kHidden the machine's number of one that is not
// seen, of which NVML tells no more than the name.
constexpr std::uintptr_t kHidden = 0x10000;
nvmlDevice_t handle(std::uintptr_t number) { return reinterpret_cast<nvmlDevice_t>(number + 1); }
std::uintptr_t number_of(nvmlDevice_t d) { return reinterpret_cast<std::uintptr_t>(d) - 1; }

std::string uuid_of(std::uintptr_t number) {
  std::array<char, 16> bytes;
  device::device_uuid(static_cast<int>(number < kHidden ? number : 64 + (number - kHidden) % 64),
                      bytes.data());
  std::string text;
  for (const char byte : bytes) text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  for (const std::size_t place : {20, 16, 12, 8}) text.insert(place, "-");
  return "GPU-" + text;
}

/// Returns the error of a call before the call does anything; `pointers` are all needed.
nvmlReturn_t check(std::initializer_list<const void*> pointers) {
  if (nvml_users == 0) return NVML_ERROR_UNINITIALIZED;
  return std::ranges::count(pointers, nullptr) > 0 ? NVML_ERROR_INVALID_ARGUMENT : NVML_SUCCESS;
}

nvmlReturn_t give_device(std::uintptr_t number, nvmlDevice_t* to) {
  if (number >= static_cast<std::uintptr_t>(device::device_count())) return NVML_ERROR_NOT_FOUND;
  *to = handle(number);
  return NVML_SUCCESS;
}

/// Calls `body` with the CUDA number of a device that this process sees.
template <class Body>
nvmlReturn_t ask(nvmlDevice_t d, const void* result, Body body) {
  if (const auto error = check({d, result})) return error;
  if (number_of(d) >= kHidden) return NVML_ERROR_NO_PERMISSION;
  if (number_of(d) >= static_cast<std::uintptr_t>(device::device_count()))
    return NVML_ERROR_INVALID_ARGUMENT;
  return body(static_cast<int>(number_of(d)));
}

template <class Value>
nvmlReturn_t zero(nvmlDevice_t d, Value* value) {
  return ask(d, value, [&](int) {
    *value = {};
    return NVML_SUCCESS;
  });
}

/// This process alone; every process that sees a device has a context on it.
template <class Process>
nvmlReturn_t processes(nvmlDevice_t d, unsigned* count, Process* to) {
  return ask(d, count, [&](int number) {
    const unsigned room = *count;
    *count = 1;
    if (room == 0) return NVML_ERROR_INSUFFICIENT_SIZE;
    if (to == nullptr) return NVML_ERROR_INVALID_ARGUMENT;
    *to = {};
    to->pid = static_cast<unsigned>(getpid());
    to->usedGpuMemory = device::memory_used(number);
    if constexpr (requires { to->gpuInstanceId; }) to->gpuInstanceId = to->computeInstanceId = ~0U;
    return NVML_SUCCESS;
  });
}

}  // namespace

nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count) {
  if (const auto error = check({count})) return error;
  const auto all = numbers();
  if (!all) return nvml_refuse("nvmlDeviceGetCount_v2 with names in CUDA_VISIBLE_DEVICES");
  *count = all->empty() ? 0 : 1 + *std::ranges::max_element(*all);
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetCount(unsigned* count) { return nvmlDeviceGetCount_v2(count); }

nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* d) {
  unsigned count = 0;
  if (const auto error = nvmlDeviceGetCount_v2(&count)) return error;
  if (d == nullptr || index >= count) return NVML_ERROR_INVALID_ARGUMENT;
  const auto all = *numbers();
  const auto seen = std::ranges::find(all, index);
  *d =
      handle(seen == all.end() ? kHidden + index : static_cast<std::uintptr_t>(seen - all.begin()));
  return NVML_SUCCESS;
}
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* d) {
  return nvmlDeviceGetHandleByIndex_v2(index, d);
}

nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* d) {
  if (const auto error = check({id, d})) return error;
  unsigned domain = 0, bus = 0, slot = 0;
  if (std::sscanf(id, "%x:%x:%x", &domain, &bus, &slot) != 3) return NVML_ERROR_INVALID_ARGUMENT;
  return domain != 0 || bus == 0 || slot != 0 ? NVML_ERROR_NOT_FOUND : give_device(bus - 1, d);
}
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* id, nvmlDevice_t* d) {
  return nvmlDeviceGetHandleByPciBusId_v2(id, d);
}

nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* d) {
  if (const auto error = check({uuid, d})) return error;
  std::uintptr_t number = 0;
  while (number < 64 && uuid_of(number) != uuid) ++number;
  return give_device(number, d);
}

nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t d, char* text, unsigned size) {
  return ask(d, text, [&](int) { return nvml_give(device::device_name(), text, size); });
}
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t d, char* text, unsigned size) {
  if (const auto error = check({d})) return error;
  return nvml_give(uuid_of(number_of(d)), text, size);
}

// Driver and firmware take nothing of a virtual device.
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t d, nvmlMemory_v2_t* memory) {
  return ask(d, memory, [&](int number) {
    if (memory->version != nvmlMemory_v2) return NVML_ERROR_INVALID_ARGUMENT;
    memory->total = device::device_capacity(number);
    memory->used = device::memory_used(number);
    memory->free = memory->total - memory->used;
    memory->reserved = 0;
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t d, nvmlMemory_t* memory) {
  nvmlMemory_v2_t all{nvmlMemory_v2, 0, 0, 0, 0};
  const auto error = nvmlDeviceGetMemoryInfo_v2(memory == nullptr ? nullptr : d, &all);
  if (error == NVML_SUCCESS) *memory = {all.total, all.free, all.used};
  return error;
}

nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t d, unsigned* count,
                                                  nvmlProcessInfo_v1_t* to) {
  return processes(d, count, to);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t d, unsigned* count,
                                                     nvmlProcessInfo_t* to) {
  return processes(d, count, to);
}
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t d, unsigned* count,
                                                     nvmlProcessInfo_t* to) {
  return processes(d, count, to);
}

// The highest clocks of cores and memory; an application does not set clocks here.
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t d, int type, unsigned* mhz) {
  constexpr int kGraphics = 0, kSm = 1, kMemory = 2;  // NVML_CLOCK_...; 3: video
  return ask(d, mhz, [&](int number) {
    if (type != kGraphics && type != kSm && type != kMemory) return NVML_ERROR_NOT_SUPPORTED;
    int khz = 0;
    device::attribute(&khz, type == kMemory ? cudaDevAttrMemoryClockRate : cudaDevAttrClockRate,
                      number);
    *mhz = static_cast<unsigned>(khz / 1000);
    return NVML_SUCCESS;
  });
}

// Answers of a GPU without work: nothing is used, drawn or warm. The clocks are the highest.
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t d, int type, unsigned* mhz) {
  return nvmlDeviceGetMaxClockInfo(d, type, mhz);
}
nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t d, int type, int, unsigned* mhz) {
  return nvmlDeviceGetMaxClockInfo(d, type, mhz);
}
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t d, nvmlUtilization_t* utilization) {
  return zero(d, utilization);
}
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t d, unsigned* milliwatts) {
  return zero(d, milliwatts);
}
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t d, unsigned long long* millijoules) {
  return zero(d, millijoules);
}
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t d, int sensor, unsigned* celsius) {
  constexpr int kOfGpu = 0;  // NVML_TEMPERATURE_GPU
  return sensor == kOfGpu ? zero(d, celsius) : NVML_ERROR_INVALID_ARGUMENT;
}
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t d, int* state) { return zero(d, state); }

// Figures that the profile does not have.
nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t d, unsigned* percent) {
  return ask(d, percent, [](int) { return NVML_ERROR_NOT_SUPPORTED; });
}
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t d, unsigned* milliwatts) {
  return ask(d, milliwatts, [](int) { return NVML_ERROR_NOT_SUPPORTED; });
}
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t d, unsigned* milliwatts) {
  return ask(d, milliwatts, [](int) { return NVML_ERROR_NOT_SUPPORTED; });
}

nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t d, int* major, int* minor) {
  return ask(d, major && minor ? major : nullptr, [&](int number) {
    device::attribute(major, cudaDevAttrComputeCapabilityMajor, number);
    device::attribute(minor, cudaDevAttrComputeCapabilityMinor, number);
    return NVML_SUCCESS;
  });
}

// The answer of a GPU that has no MIG.
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t d, unsigned* current, unsigned*) {
  return ask(d, current, [](int) { return NVML_ERROR_NOT_SUPPORTED; });
}
// As cudaDeviceCanAccessPeer says.
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t d, nvmlDevice_t peer, int, int* status) {
  constexpr int kOk = 0, kNotSupported = 5;  // NVML_P2P_STATUS_...
  return ask(d, status, [&](int number) {
    return ask(peer, status, [&](int other) {
      int can = 0;
      device::can_access_peer(&can, number, other);
      *status = can ? kOk : kNotSupported;
      return NVML_SUCCESS;
    });
  });
}
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t d, nvmlGpuFabricInfo_v2_t* fabric) {
  return ask(d, fabric, [&](int) {
    fabric->state = 0;  // NVML_GPU_FABRIC_STATE_NOT_SUPPORTED
    return NVML_SUCCESS;
  });
}
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t, unsigned, int*) {
  return nvml_refuse("nvmlDeviceGetNvLinkRemoteDeviceType");
}
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t, unsigned, void*) {
  return nvml_refuse("nvmlDeviceGetNvLinkRemotePciInfo_v2");
}
