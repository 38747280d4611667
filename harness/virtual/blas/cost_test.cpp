// Time of PyTorch's products on the virtual clock: 2 m n k operations at the type's dense rate or
// the operands' bytes at the memory's, whichever is longer, plus a kernel's latency. The figures
// are the H100 profile's, written down here once more.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "harness/virtual/device/testing.h"

namespace {

constexpr double kBytesPerNs = 3350, kLatency = 2000;
constexpr double kF32 = 67e3, kTf32 = 494.7e3, kBf16 = 989.4e3, kF64 = 67e3;  // flop/ns

class BlasCost : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    ASSERT_EQ(tidemark_device_set_profile("h100-80g"), 0);
    at::globalContext().lazyInitDevice(c10::kCUDA);
  }
  void SetUp() override { ASSERT_EQ(tidemark_device_set_schedule("calibrated"), 0); }
  void TearDown() override { tidemark_device_trace(0); }

  static at::Tensor on_device(at::IntArrayRef sizes, at::ScalarType type) {
    return at::empty(sizes, at::TensorOptions().device(c10::kCUDA).dtype(type));
  }

  // Duration in ns of the one product that the call runs, whichever of cuBLAS's entries it takes.
  template <class Call>
  static double duration(const Call& call) {
    call();  // handles and workspaces
    tidemark_device_reset_clock();
    tidemark_device_trace(1);
    call();
    std::vector<double> durations;
    std::string names;
    for (const tidemark_span& one : tidemark::device::testing::traced()) {
      const std::string name = one.name;
      names += name + " ";
      if (name.find("emm") != name.npos || name.find("atmul") != name.npos)
        durations.push_back(static_cast<double>(one.end - one.begin));
    }
    EXPECT_EQ(durations.size(), 1u) << names;
    return durations.empty() ? -1 : durations[0];
  }
  static double expected(double flops, double rate, double bytes) {
    return kLatency + std::round(std::max(flops / rate, bytes / kBytesPerNs));
  }
};

TEST_F(BlasCost, AProductByItsDimensionsAndType) {
  struct Case {
    at::ScalarType type;
    double rate, size;
  };
  for (const auto& c : {Case{at::kFloat, kF32, 4}, Case{at::kDouble, kF64, 8},
                        Case{at::kBFloat16, kBf16, 2}, Case{at::kHalf, kBf16, 2}}) {
    for (const auto& [m, n, k] : {std::array<std::int64_t, 3>{4096, 1024, 8192},
                                  {1, 5000, 7000},  // a vector's worth: bytes decide
                                  {77, 33, 129}}) {
      const auto a = on_device({m, k}, c.type), b = on_device({k, n}, c.type);
      const auto x = static_cast<double>(m), y = static_cast<double>(n), z = static_cast<double>(k);
      EXPECT_EQ(duration([&] { return at::mm(a, b); }),
                expected(2 * x * y * z, c.rate, c.size * (x * z + z * y + x * y)))
          << at::toString(c.type) << " " << m << "x" << n << "x" << k;
    }
  }
}

TEST_F(BlasCost, TransposedOperandsCostTheSame) {
  const auto a = on_device({512, 2048}, at::kBFloat16), b = on_device({1024, 2048}, at::kBFloat16);
  const double same =
      expected(2.0 * 512 * 1024 * 2048, kBf16, 2.0 * (512 * 2048 + 1024 * 2048 + 512 * 1024));
  EXPECT_EQ(duration([&] { return at::mm(a, b.t()); }), same);
  EXPECT_EQ(duration([&] { return at::mm(b, a.t()); }), same);
  EXPECT_EQ(duration([&] { return at::linear(a, b); }), same);
}

TEST_F(BlasCost, AccumulatingReadsTheResultToo) {
  const auto a = on_device({64, 64}, at::kFloat), b = on_device({64, 4096}, at::kFloat);
  auto c = on_device({64, 4096}, at::kFloat);
  EXPECT_EQ(duration([&] { return c.addmm_(a, b); }),
            expected(2.0 * 64 * 64 * 4096, kF32, 4.0 * (64 * 64 + 64 * 4096 + 2 * 64 * 4096)));
}

TEST_F(BlasCost, ABatchIsSoManyProducts) {
  const auto a = on_device({12, 256, 64}, at::kBFloat16),
             b = on_device({12, 64, 256}, at::kBFloat16);
  EXPECT_EQ(
      duration([&] { return at::bmm(a, b); }),
      expected(12 * 2.0 * 256 * 256 * 64, kBf16, 12 * 2.0 * (256 * 64 + 64 * 256 + 256 * 256)));
}

TEST_F(BlasCost, TensorCoresWhereFp32MayUseThem) {
  const auto a = on_device({4096, 4096}, at::kFloat);
  const double flops = 2.0 * 4096 * 4096 * 4096, bytes = 3 * 4.0 * 4096 * 4096;
  EXPECT_EQ(duration([&] { return at::mm(a, a); }), expected(flops, kF32, bytes));
  at::globalContext().setAllowTF32CuBLAS(true);
  EXPECT_EQ(duration([&] { return at::mm(a, a); }), expected(flops, kTf32, bytes));
  at::globalContext().setAllowTF32CuBLAS(false);
}

TEST_F(BlasCost, WithoutTheOperatorLayerAProductInMathIsRefused) {
  const auto a = on_device({4, 4}, at::kFloat);
  tidemark_device_set_data(1);
  EXPECT_THROW(at::mm(a, a), c10::Error);
  tidemark_device_set_data(0);
}

}  // namespace
