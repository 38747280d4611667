// Kernels that fill memory beside PyTorch's operators, by the names that bitsandbytes gives them.
#include <numeric>
#include <vector>

#include "harness/virtual/device/testing.h"

namespace {

using namespace tidemark::device::testing;

constexpr long kCount = 5;

template <class T>
struct Managed {
  Managed() {
    void* memory = nullptr;
    EXPECT_EQ(cudaSuccess, cudaMallocManaged(&memory, kCount * sizeof(T)));
    at = static_cast<T*>(memory);
    std::iota(at, at + kCount, T{2});
  }
  ~Managed() { EXPECT_EQ(cudaSuccess, cudaFree(at)); }
  std::vector<T> values() const { return {at, at + kCount}; }
  T* at = nullptr;
};

template <class T>
cudaError_t start(const char* kernel, T* a, T* b, T value) {
  long count = kCount;
  void* arguments[] = {&a, &b, &value, &count};
  register_kernel(kernel, kernel);
  return launch(kernel, arguments);
}

struct Fills : Calibrated {
  void SetUp() override {
    Calibrated::SetUp();
    tidemark_device_set_data(1);
  }
};

TEST_F(Fills, AValueTheIndexAndAProduct) {
  const Managed<unsigned char> bytes;
  CUDA((start<unsigned char>("_Z5kfuncIhLi0EEvPT_S1_S0_l", bytes.at, nullptr, 7)));
  EXPECT_EQ(std::vector<unsigned char>(5, 7), bytes.values());
  const Managed<float> floats, factors;
  CUDA(start<float>("_Z5kfuncIfLi0EEvPT_S1_S0_l", floats.at, nullptr, 0.5F));
  EXPECT_EQ(std::vector<float>(5, 0.5F), floats.values());
  CUDA(start<float>("_Z5kfuncIfLi1EEvPT_S1_S0_l", floats.at, nullptr, 0));
  EXPECT_EQ((std::vector<float>{0, 1, 2, 3, 4}), floats.values());
  CUDA(start<float>("_Z5kfuncIfLi2EEvPT_S1_S0_l", floats.at, factors.at, 0));
  EXPECT_EQ((std::vector<float>{0, 3, 8, 15, 24}), floats.values());
}

TEST_F(Fills, AnotherKernelIsRefused) {
  const Managed<float> floats;
  EXPECT_EQ(cudaErrorNotSupported,
            start<float>("_Z5kfuncIfLi3EEvPT_S1_S0_l", floats.at, nullptr, 0));
  EXPECT_EQ(2, floats.at[0]);
}

// Without numbers nothing is written.
TEST_F(Fills, ModeShapesWritesNothing) {
  tidemark_device_set_data(0);
  const Managed<float> floats;
  CUDA(start<float>("_Z5kfuncIfLi1EEvPT_S1_S0_l", floats.at, nullptr, 0));
  EXPECT_EQ((std::vector<float>{2, 3, 4, 5, 6}), floats.values());
}

}  // namespace
