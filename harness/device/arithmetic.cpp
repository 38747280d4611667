#include "harness/device/arithmetic.h"

#include <ATen/ATen.h>
#include <ATen/Version.h>
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <string>

#include "harness/device/libraries.h"
#include "harness/device/platform.h"
#include "harness/virtual/device/text.h"

namespace tidemark {
namespace {

// Large enough that no library computes it without tensor cores where it may use them.
constexpr std::int64_t kWidth = 256;

bool on_virtual_libraries() {
  return std::ranges::any_of(loaded_libraries(), [](const Library& each) {
    return each.maker == Maker::virtual_platform;
  });
}

// The BLAS chooses its kernels by it.
std::string cpu_model() {
  TextIn facts(text_of_file("/proc/cpuinfo").value_or(""));
  for (std::string line; std::getline(facts, line);)
    if (const auto colon = line.find(": "); line.starts_with("model name") && colon != line.npos)
      return line.substr(colon + 2);
  return "a CPU without a name";
}

// 1 + 2^-12 lies between two numbers of TF32, whose neighbours near 1 are 2^-10 apart, and is one
// of fp32: times the unit matrix it comes back, or TF32 was at work.
bool rounds_as_tf32() {
  platform().begin(platform().schedules().front(), Mode::math);
  const auto options = at::TensorOptions().device(at::kCUDA).dtype(at::kFloat);
  const double value = 1 + std::ldexp(1, -12);
  const at::Tensor product =
      at::mm(at::full({kWidth, kWidth}, value, options), at::eye(kWidth, options)).cpu();
  return !at::equal(product, at::full({kWidth, kWidth}, value, at::kFloat));
}

}  // namespace

void set_arithmetic() {
  auto& torch = at::globalContext();
  torch.setFloat32MatmulPrecision("highest");
  torch.setAllowTF32CuBLAS(false);
  torch.setAllowTF32CuDNN(false);
  torch.setAllowFP16ReductionCuBLAS(false);
  torch.setAllowBF16ReductionCuBLAS(false);
  torch.setAllowFP16AccumulationCuBLAS(false);
  torch.setAllowFP16BF16ReductionMathSDP(false);
}

Arithmetic arithmetic() {
  const auto& torch = at::globalContext();
  const auto full = at::CuBLASReductionOption::AllowReducedPrecisionWithSplitK;
  const bool tf32 = torch.allowTF32CuBLAS() || torch.allowTF32CuDNN();
  const bool reduced = torch.allowBF16ReductionCuBLAS() == full ||
                       torch.allowFP16ReductionCuBLAS() == full ||
                       torch.allowFP16AccumulationCuBLAS();
  const bool exact = on_virtual_libraries();
  return {fmt::format("TF32 {}, products of 16-bit numbers added up {}, by {}", tf32 ? "on" : "off",
                      reduced ? "in 16 bits in part" : "in fp32",
                      exact ? fmt::format("PyTorch's CPU kernels ({}, {})",
                                          at::get_cpu_capability(), cpu_model())
                            : "the GPU's kernels"),
          exact};
}

std::string arithmetic_fault() {
  if (virtual_device() != nullptr) return "";
  const char* set = std::getenv("NVIDIA_TF32_OVERRIDE");
  if (set != nullptr && *set != 0 && std::string(set) != "0")
    return fmt::format(
        "NVIDIA_TF32_OVERRIDE={} has NVIDIA's libraries round fp32 to TF32, which no tolerance "
        "here "
        "allows: unset it, or set it to 0",
        set);
  if (rounds_as_tf32())
    return "products of fp32 come out rounded to TF32 although PyTorch was told not to, which no "
           "tolerance here allows: look for what switches TF32 on (NVIDIA_TF32_OVERRIDE=0 switches "
           "it off)";
  return "";
}

}  // namespace tidemark
