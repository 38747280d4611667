// The modelled part of NVIDIA's management library (NVML). Names, numbers and layouts are those of
// its API reference and of nvml.h (CUDA 13.0), which is in no package that the build needs.
#pragma once

#include <cstddef>

using nvmlDevice_t = struct nvmlDevice_st*;
using nvmlReturn_t = int;

constexpr nvmlReturn_t NVML_SUCCESS = 0, NVML_ERROR_UNINITIALIZED = 1,
                       NVML_ERROR_INVALID_ARGUMENT = 2, NVML_ERROR_NOT_SUPPORTED = 3,
                       NVML_ERROR_NO_PERMISSION = 4, NVML_ERROR_NOT_FOUND = 6,
                       NVML_ERROR_INSUFFICIENT_SIZE = 7;
/// A process's memory where it is not known.
constexpr unsigned long long NVML_VALUE_NOT_AVAILABLE = ~0ULL;
constexpr unsigned NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE = 80;

struct nvmlMemory_t {  // bytes; `used` has the driver's in it
  unsigned long long total, free, used;
};
struct nvmlMemory_v2_t {
  unsigned version;  // nvmlMemory_v2
  unsigned long long total, reserved, free,
      used;  // reserved: by driver and firmware, not in `used`
};
constexpr unsigned nvmlMemory_v2 = sizeof(nvmlMemory_v2_t) | 2U << 24U;

struct nvmlProcessInfo_v1_t {
  unsigned pid;
  unsigned long long usedGpuMemory;  // bytes
};
struct nvmlProcessInfo_t {
  unsigned pid;
  unsigned long long usedGpuMemory;           // bytes
  unsigned gpuInstanceId, computeInstanceId;  // of MIG; ~0 without
};
struct nvmlUtilization_t {
  unsigned gpu, memory;  // percent
};
struct nvmlGpuFabricInfo_v2_t {
  unsigned version;
  unsigned char clusterUuid[16];
  nvmlReturn_t status;
  unsigned cliqueId;
  unsigned char state;  // 0: not supported
  unsigned healthMask;
};
static_assert(sizeof(nvmlMemory_v2_t) == 40 && offsetof(nvmlMemory_v2_t, total) == 8 &&
              sizeof(nvmlProcessInfo_v1_t) == 16 && sizeof(nvmlProcessInfo_t) == 24 &&
              offsetof(nvmlProcessInfo_t, gpuInstanceId) == 16 &&
              offsetof(nvmlGpuFabricInfo_v2_t, state) == 28);

extern "C" {
nvmlReturn_t nvmlInit();
nvmlReturn_t nvmlInit_v2();
nvmlReturn_t nvmlInitWithFlags(unsigned flags);
nvmlReturn_t nvmlShutdown();
const char* nvmlErrorString(nvmlReturn_t error);
nvmlReturn_t nvmlSystemGetDriverVersion(char* text, unsigned size);
nvmlReturn_t nvmlSystemGetCudaDriverVersion(int* version);
nvmlReturn_t nvmlSystemGetCudaDriverVersion_v2(int* version);

nvmlReturn_t nvmlDeviceGetCount(unsigned* count);
nvmlReturn_t nvmlDeviceGetCount_v2(unsigned* count);
nvmlReturn_t nvmlDeviceGetHandleByIndex(unsigned index, nvmlDevice_t* device);
nvmlReturn_t nvmlDeviceGetHandleByIndex_v2(unsigned index, nvmlDevice_t* device);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId(const char* id, nvmlDevice_t* device);
nvmlReturn_t nvmlDeviceGetHandleByPciBusId_v2(const char* id, nvmlDevice_t* device);
nvmlReturn_t nvmlDeviceGetHandleByUUID(const char* uuid, nvmlDevice_t* device);
nvmlReturn_t nvmlDeviceGetName(nvmlDevice_t device, char* text, unsigned size);
nvmlReturn_t nvmlDeviceGetUUID(nvmlDevice_t device, char* text, unsigned size);
nvmlReturn_t nvmlDeviceGetMemoryInfo(nvmlDevice_t device, nvmlMemory_t* memory);
nvmlReturn_t nvmlDeviceGetMemoryInfo_v2(nvmlDevice_t device, nvmlMemory_v2_t* memory);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses(nvmlDevice_t device, unsigned* count,
                                                  nvmlProcessInfo_v1_t* processes);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v2(nvmlDevice_t device, unsigned* count,
                                                     nvmlProcessInfo_t* processes);
nvmlReturn_t nvmlDeviceGetComputeRunningProcesses_v3(nvmlDevice_t device, unsigned* count,
                                                     nvmlProcessInfo_t* processes);
nvmlReturn_t nvmlDeviceGetMigMode(nvmlDevice_t device, unsigned* current, unsigned* pending);
nvmlReturn_t nvmlDeviceGetMaxClockInfo(nvmlDevice_t device, int type, unsigned* mhz);
nvmlReturn_t nvmlDeviceGetClockInfo(nvmlDevice_t device, int type, unsigned* mhz);
nvmlReturn_t nvmlDeviceGetClock(nvmlDevice_t device, int type, int id, unsigned* mhz);
nvmlReturn_t nvmlDeviceGetUtilizationRates(nvmlDevice_t device, nvmlUtilization_t* utilization);
nvmlReturn_t nvmlDeviceGetPowerUsage(nvmlDevice_t device, unsigned* milliwatts);
nvmlReturn_t nvmlDeviceGetTotalEnergyConsumption(nvmlDevice_t device,
                                                 unsigned long long* millijoules);
nvmlReturn_t nvmlDeviceGetTemperature(nvmlDevice_t device, int sensor, unsigned* celsius);
nvmlReturn_t nvmlDeviceGetPerformanceState(nvmlDevice_t device, int* state);
nvmlReturn_t nvmlDeviceGetFanSpeed(nvmlDevice_t device, unsigned* percent);
nvmlReturn_t nvmlDeviceGetEnforcedPowerLimit(nvmlDevice_t device, unsigned* milliwatts);
nvmlReturn_t nvmlDeviceGetPowerManagementLimit(nvmlDevice_t device, unsigned* milliwatts);
nvmlReturn_t nvmlDeviceGetCudaComputeCapability(nvmlDevice_t device, int* major, int* minor);
nvmlReturn_t nvmlDeviceGetP2PStatus(nvmlDevice_t one, nvmlDevice_t other, int what, int* status);
nvmlReturn_t nvmlDeviceGetGpuFabricInfoV(nvmlDevice_t device, nvmlGpuFabricInfo_v2_t* fabric);
nvmlReturn_t nvmlDeviceGetNvLinkRemoteDeviceType(nvmlDevice_t device, unsigned link, int* type);
nvmlReturn_t nvmlDeviceGetNvLinkRemotePciInfo_v2(nvmlDevice_t device, unsigned link, void* pci);
}
