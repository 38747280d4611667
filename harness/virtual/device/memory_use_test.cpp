// Uses of memory reach the one who listens: workspaces when cuBLAS is given them, and copies from
// the host.
#include "harness/virtual/device/memory_use.h"

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace tidemark::device {
namespace {

using Uses = std::vector<std::pair<const void*, std::string>>;
Uses seen;

struct MemoryUse : ::testing::Test {
  MemoryUse() {
    seen.clear();
    tidemark_device_on_use(
        [](const void* memory, const char* kind) { seen.emplace_back(memory, kind); });
  }
  ~MemoryUse() override { tidemark_device_on_use(nullptr); }
};

TEST_F(MemoryUse, WorkspacesReachTheListenerWhenTheyAreGiven) {
  const char memory[2]{};
  for (const void* workspace : {&memory[0], &memory[1], &memory[0]}) give_workspace(workspace);
  give_workspace(nullptr);
  const std::string kind = "cuBLAS workspaces";
  EXPECT_EQ(seen, (Uses{{&memory[0], kind}, {&memory[1], kind}, {&memory[0], kind}}));
  tidemark_device_on_use(nullptr);
  give_workspace(&memory[1]);
  EXPECT_EQ(seen.size(), 3u);
}

TEST_F(MemoryUse, CopiesFromTheHostAreInputsAndOthersReadTheDevice) {
  char host[64]{}, *memory = nullptr, *pinned = nullptr;
  ASSERT_EQ(cudaMalloc(reinterpret_cast<void**>(&memory), 256), cudaSuccess);
  ASSERT_EQ(cudaMallocHost(reinterpret_cast<void**>(&pinned), 64), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(memory + 64, host, 64, cudaMemcpyDefault), cudaSuccess);
  ASSERT_EQ(cudaMemcpyAsync(memory, pinned, 64, cudaMemcpyHostToDevice, nullptr), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(memory, memory + 64, 64, cudaMemcpyDeviceToDevice), cudaSuccess);
  ASSERT_EQ(cudaMemcpy(pinned, host, 64, cudaMemcpyDefault), cudaSuccess);
  ASSERT_EQ(cudaMemset(memory, 0, 64), cudaSuccess);
  EXPECT_EQ(seen, (Uses{{memory + 64, "inputs"}, {memory, "inputs"}, {memory + 64, "read"}}));
  cudaFreeHost(pinned);
  cudaFree(memory);
}

}  // namespace
}  // namespace tidemark::device
