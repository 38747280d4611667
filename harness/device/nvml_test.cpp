// Owners of a GPU's memory: the rule on made-up figures, and the question on the virtual NVML.
#include "harness/device/nvml.h"

#include <cuda_runtime_api.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include "harness/device/libraries.h"

namespace tidemark {
namespace {

using ::testing::HasSubstr;

constexpr Bytes kMiB = 1 << 20;

/// A GPU with this process (pid 100) and another.
GpuUse two_processes() {
  GpuUse use;
  use.processes = {{70, 300 * kMiB, true}, {100, 900 * kMiB, true}};
  use.used = 1210 * kMiB;  // 10 of no process that NVML names
  use.reserved = 550 * kMiB;
  return use;
}

std::string why(const GpuUse& use, Bytes allocator = 400 * kMiB) {
  const auto owners = told_apart(use, 100, allocator);
  EXPECT_EQ(owners.own + owners.others + owners.driver, 0) << "a figure beside the reason";
  return owners.unknown;
}

TEST(Nvml, ThisProcessAndTheOthersAreToldApart) {
  const OutsideOwners expected{500 * kMiB, 310 * kMiB, 550 * kMiB, ""};
  EXPECT_EQ(told_apart(two_processes(), 100, 400 * kMiB), expected);
  auto use = two_processes();
  use.processes[0].used.reset();  // the others' need not be told one by one
  EXPECT_EQ(told_apart(use, 100, 400 * kMiB), expected);
}

TEST(Nvml, UnknownUseIsNotGuessed) {
  GpuUse use;
  use.unknown = "nvmlInit_v2: Driver Not Loaded";
  EXPECT_EQ(why(use), use.unknown);

  use = two_processes();
  use.processes[1].pid = 4711;
  EXPECT_THAT(why(use), HasSubstr("process 100 is not among the 2"));
  use.processes.clear();
  EXPECT_THAT(why(use), HasSubstr("process 100 is not among the 0"));

  // In a container with numbers of its own, this process's number may be that of another process on
  // the host.
  use = two_processes();
  use.processes[0].here = false;
  EXPECT_THAT(why(use), HasSubstr("host process ids (such as 70)"));

  use = two_processes();
  use.processes[1].used.reset();
  EXPECT_THAT(why(use), HasSubstr("does not tell"));

  EXPECT_THAT(why(two_processes(), 901 * kMiB), HasSubstr("do not agree"));
  use = two_processes();
  use.used = 899 * kMiB;
  EXPECT_THAT(why(use), HasSubstr("do not agree"));
}

TEST(Nvml, OfTheVirtualDeviceItIsTheVirtualPlatforms) {
  EXPECT_EQ(management_library(), virtual_folder() / "nvml" / "libnvidia-ml.so.1");
  EXPECT_EQ(driver_version(), "virtual");
}

TEST(Nvml, TheMemoryOfThisProcessIsSeen) {
  cudaDeviceProp properties{};
  ASSERT_EQ(cudaGetDeviceProperties(&properties, 0), cudaSuccess);
  void* memory = nullptr;
  const Bytes context = gpu_use(properties.uuid.bytes).used;
  ASSERT_EQ(cudaMalloc(&memory, 32 * kMiB), cudaSuccess);
  const GpuUse use = gpu_use(properties.uuid.bytes);
  EXPECT_EQ(use.unknown, "");
  EXPECT_EQ(told_apart(use, getpid(), 20 * kMiB), (OutsideOwners{context + 12 * kMiB, 0, 0, ""}));
  ASSERT_EQ(cudaFree(memory), cudaSuccess);
  properties.uuid.bytes[3] = 0;
  EXPECT_THAT(gpu_use(properties.uuid.bytes).unknown, HasSubstr("nvmlDeviceGetHandleByUUID: "));
}

}  // namespace
}  // namespace tidemark
