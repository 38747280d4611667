// The virtual NVML tells of the same devices and the same memory as CUDA.
#include <fmt/format.h>
#include <nvml.h>
#include <unistd.h>

#include <array>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "harness/virtual/device/testing.h"

namespace {

constexpr std::size_t kMiB = std::size_t{1} << 20;
const bool two = setenv("TIDEMARK_DEVICES", "2", 1) == 0;  // before the first call

#define NVML(expression) ASSERT_EQ(NVML_SUCCESS, (expression)) << #expression

/// As NVML writes the UUID that CUDA gives in bytes.
std::string uuid_of(int device) {
  cudaDeviceProp properties;
  EXPECT_EQ(cudaSuccess, cudaGetDeviceProperties(&properties, device));
  std::string text;
  for (const char byte : properties.uuid.bytes)
    text += fmt::format("{:02x}", static_cast<unsigned char>(byte));
  for (const std::size_t place : {20, 16, 12, 8}) text.insert(place, "-");
  return "GPU-" + text;
}

struct Nvml : ::testing::Test {
  void SetUp() override { NVML(nvmlInit_v2()); }
  void TearDown() override {
    unsetenv("CUDA_VISIBLE_DEVICES");
    cudaSetDevice(0);
    EXPECT_EQ(NVML_SUCCESS, nvmlShutdown());
  }
};

TEST(NvmlWithoutInit, AnswersNothing) {
  unsigned count = 7;
  EXPECT_EQ(NVML_ERROR_UNINITIALIZED, nvmlDeviceGetCount_v2(&count));
  EXPECT_EQ(NVML_ERROR_UNINITIALIZED, nvmlShutdown());
}

TEST_F(Nvml, KnowsADeviceByAllItsNames) {
  unsigned count = 0;
  NVML(nvmlDeviceGetCount_v2(&count));
  EXPECT_EQ(2u, count);
  for (int device = 0; device < 2; ++device) {
    nvmlDevice_t index = nullptr, bus = nullptr, uuid = nullptr;
    cudaDeviceProp properties;
    CUDA(cudaGetDeviceProperties(&properties, device));
    std::array<char, 32> id{};  // as PyTorch writes it
    std::snprintf(id.data(), id.size(), "%08X:%02X:%02X.0", properties.pciDomainID,
                  properties.pciBusID, properties.pciDeviceID);
    NVML(nvmlDeviceGetHandleByIndex_v2(static_cast<unsigned>(device), &index));
    NVML(nvmlDeviceGetHandleByPciBusId_v2(id.data(), &bus));
    NVML(nvmlDeviceGetHandleByUUID(uuid_of(device).c_str(), &uuid));
    EXPECT_EQ(index, bus);
    EXPECT_EQ(index, uuid);
    std::array<char, 96> text{};
    NVML(nvmlDeviceGetUUID(index, text.data(), text.size()));
    EXPECT_EQ(uuid_of(device), text.data());
    EXPECT_EQ(NVML_ERROR_INSUFFICIENT_SIZE, nvmlDeviceGetUUID(index, text.data(), 40));
    NVML(nvmlDeviceGetName(index, text.data(), text.size()));
    EXPECT_STREQ(properties.name, text.data());
  }
  nvmlDevice_t none = nullptr;
  EXPECT_EQ(NVML_ERROR_NOT_FOUND, nvmlDeviceGetHandleByUUID("GPU-0", &none));
  EXPECT_EQ(NVML_ERROR_NOT_FOUND, nvmlDeviceGetHandleByPciBusId_v2("0000:09:00.0", &none));
  EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetHandleByIndex_v2(2, &none));
}

// Inductor asks for the clock of the cores before it estimates how long a graph takes.
TEST_F(Nvml, ClocksAreThoseOfCuda) {
  nvmlDevice_t d = nullptr;
  NVML(nvmlDeviceGetHandleByIndex_v2(1, &d));
  for (const auto& [type, attribute] : {std::pair{0, cudaDevAttrClockRate},
                                        {1, cudaDevAttrClockRate},
                                        {2, cudaDevAttrMemoryClockRate}}) {
    unsigned mhz = 0;
    int khz = 0;
    NVML(nvmlDeviceGetMaxClockInfo(d, type, &mhz));
    CUDA(cudaDeviceGetAttribute(&khz, attribute, 1));
    EXPECT_EQ(static_cast<unsigned>(khz / 1000), mhz);
    EXPECT_GT(mhz, 100u);
  }
  unsigned mhz = 0;
  EXPECT_EQ(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetMaxClockInfo(d, 3, &mhz));
}

TEST_F(Nvml, MemoryIsThatOfCudaOnTheDeviceThatHasIt) {
  void* memory = nullptr;
  CUDA(cudaSetDevice(1));
  CUDA(cudaMalloc(&memory, 10 * kMiB));
  std::size_t left = 0, whole = 0;
  CUDA(cudaMemGetInfo(&left, &whole));
  const std::size_t context = whole - left - 10 * kMiB;  // the same on each device
  EXPECT_GT(context, 0u);
  for (unsigned device = 0; device < 2; ++device) {
    nvmlDevice_t d = nullptr;
    NVML(nvmlDeviceGetHandleByIndex_v2(device, &d));
    nvmlMemory_v2_t now{nvmlMemory_v2, 1, 1, 1, 1};
    NVML(nvmlDeviceGetMemoryInfo_v2(d, &now));
    EXPECT_EQ(whole, now.total);
    EXPECT_EQ(context + (device == 1 ? 10 * kMiB : 0), now.used);
    EXPECT_EQ(whole - now.used, now.free);
    EXPECT_EQ(0u, now.reserved);
    now.version = 1;
    EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetMemoryInfo_v2(d, &now));

    unsigned count = 0;
    EXPECT_EQ(NVML_ERROR_INSUFFICIENT_SIZE,
              nvmlDeviceGetComputeRunningProcesses_v3(d, &count, nullptr));
    ASSERT_EQ(1u, count);
    count = 4;
    std::vector<nvmlProcessInfo_t> processes(count);
    NVML(nvmlDeviceGetComputeRunningProcesses_v3(d, &count, processes.data()));
    ASSERT_EQ(1u, count);
    EXPECT_EQ(static_cast<unsigned>(getpid()), processes[0].pid);
    EXPECT_EQ(now.used, processes[0].usedGpuMemory);
    nvmlProcessInfo_v1_t old{};
    NVML(nvmlDeviceGetComputeRunningProcesses(d, &count, &old));
    EXPECT_EQ(now.used, old.usedGpuMemory);
  }
  CUDA(cudaFree(memory));
}

TEST_F(Nvml, AGpuWithoutWorkIsIdle) {
  nvmlDevice_t d = nullptr;
  NVML(nvmlDeviceGetHandleByIndex_v2(0, &d));
  nvmlUtilization_t utilization{1, 1};
  NVML(nvmlDeviceGetUtilizationRates(d, &utilization));
  EXPECT_EQ(0u, utilization.gpu + utilization.memory);
  unsigned power = 1, celsius = 1, mhz = 0, most = 0;
  unsigned long long energy = 1;
  int state = 1, major = 0, minor = -1;
  NVML(nvmlDeviceGetPowerUsage(d, &power));
  NVML(nvmlDeviceGetTotalEnergyConsumption(d, &energy));
  NVML(nvmlDeviceGetTemperature(d, 0, &celsius));
  NVML(nvmlDeviceGetPerformanceState(d, &state));
  EXPECT_EQ(0u, power + energy + celsius + static_cast<unsigned>(state));
  NVML(nvmlDeviceGetClockInfo(d, 1, &mhz));
  NVML(nvmlDeviceGetMaxClockInfo(d, 1, &most));
  EXPECT_EQ(most, mhz);
  NVML(nvmlDeviceGetCudaComputeCapability(d, &major, &minor));
  EXPECT_EQ(90, 10 * major + minor);
  EXPECT_EQ(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetFanSpeed(d, &power)) << "no profile says it";
  EXPECT_EQ(NVML_ERROR_INVALID_ARGUMENT, nvmlDeviceGetPowerUsage(d, nullptr));
  int status = -1;
  nvmlDevice_t peer = nullptr;
  NVML(nvmlDeviceGetHandleByIndex_v2(1, &peer));
  NVML(nvmlDeviceGetP2PStatus(d, peer, 0, &status));
  EXPECT_EQ(0, status);
  NVML(nvmlDeviceGetP2PStatus(d, d, 0, &status));
  EXPECT_EQ(5, status) << "no device is its own peer";
}

// The device's number in CUDA is its place in the list; in NVML the number that stands there.
TEST_F(Nvml, NumbersAreTheMachinesWhateverIsVisible) {
  setenv("CUDA_VISIBLE_DEVICES", "3,1", 1);
  unsigned count = 0;
  NVML(nvmlDeviceGetCount_v2(&count));
  EXPECT_EQ(4u, count);
  nvmlDevice_t d = nullptr;
  std::array<char, 96> text{};
  for (const auto& [index, device] : {std::pair<unsigned, int>{3, 0}, {1, 1}}) {
    NVML(nvmlDeviceGetHandleByIndex_v2(index, &d));
    NVML(nvmlDeviceGetUUID(d, text.data(), text.size()));
    EXPECT_EQ(uuid_of(device), text.data());
  }
  NVML(nvmlDeviceGetHandleByIndex_v2(2, &d));  // somebody else's
  NVML(nvmlDeviceGetUUID(d, text.data(), text.size()));
  EXPECT_NE(uuid_of(0), text.data());
  EXPECT_NE(uuid_of(1), text.data());
  EXPECT_EQ(NVML_ERROR_NO_PERMISSION, nvmlDeviceGetName(d, text.data(), text.size()));
  setenv("CUDA_VISIBLE_DEVICES", "GPU-1234,GPU-5678", 1);
  EXPECT_EQ(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetCount_v2(&count));
}

TEST_F(Nvml, UnmodelledCallsAreRefusedByName) {
  ::testing::internal::CaptureStderr();
  int type = 0;
  EXPECT_EQ(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetNvLinkRemoteDeviceType(nullptr, 0, &type));
  EXPECT_EQ(NVML_ERROR_NOT_SUPPORTED, nvmlDeviceGetNvLinkRemoteDeviceType(nullptr, 1, &type));
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "tidemark: nvmlDeviceGetNvLinkRemoteDeviceType (libnvidia-ml) is not modelled by the "
            "virtual device; it answers \"not supported\"\n");
}

}  // namespace
