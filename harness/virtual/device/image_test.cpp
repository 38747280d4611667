// Choice of the code image that runs on a device: fat binaries, cubins and PTX, and what a kernel
// without one answers.
#include "harness/virtual/device/image.h"

#include <cuda.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "harness/virtual/device/testing.h"

namespace {

using namespace tidemark::device::testing;
using tidemark::device::choose_image;
using tidemark::device::Image;

struct Code {
  int capability;
  bool ptx = false, one_architecture = false;
};

// A fat binary in the layout that nvcc writes, with code of 24 bytes each.
std::vector<char> fat_binary(const std::vector<Code>& codes) {
  constexpr std::uint32_t kHeader = 64, kBytes = 24;
  std::vector<char> all(16 + codes.size() * (kHeader + kBytes));
  const auto put = [&](std::size_t at, auto value) {
    std::memcpy(all.data() + at, &value, sizeof value);
  };
  put(0, std::uint32_t{0xba55ed50});
  put(4, std::uint16_t{1});
  put(6, std::uint16_t{16});
  put(8, std::uint64_t{all.size() - 16});
  std::size_t at = 16;
  for (const Code& code : codes) {
    put(at, std::uint16_t(code.ptx ? 1 : 2));
    put(at + 4, kHeader);
    put(at + 8, std::uint64_t{kBytes});
    put(at + 28, static_cast<std::uint32_t>(code.capability));
    put(at + 40, std::uint64_t{code.one_architecture ? 0x108011u : 0x8011u});
    at += kHeader + kBytes;
  }
  return all;
}

std::vector<char> cubin(int capability, unsigned abi) {
  std::vector<char> elf(64);
  std::memcpy(elf.data(), "\177ELF\2\1", 6);
  elf[8] = static_cast<char>(abi);
  elf[18] = static_cast<char>(190);
  const auto flags = static_cast<std::uint32_t>(abi >= 8 ? capability << 8 : capability | 0x500);
  std::memcpy(elf.data() + 48, &flags, 4);
  return elf;
}

// The torch 2.11.0 wheel's.
const std::vector<Code> kWheel{{75}, {80}, {86}, {90}, {100}, {120}, {90, false, true}};

TEST(Images, TheGreatestOfTheSameMajorAndNoGreaterMinorIsTaken) {
  const auto wheel = fat_binary(kWheel);
  const auto on = [&](int capability) { return choose_image(wheel.data(), capability); };
  for (const int exact : {75, 80, 86, 90, 100, 120}) EXPECT_EQ((Image{exact, exact}), on(exact));
  EXPECT_EQ((Image{86, 86}), on(89)) << "RTX 4090, L40S, L4";
  EXPECT_EQ((Image{80, 80}), on(82));
  EXPECT_EQ((Image{100, 100}), on(103));
  EXPECT_EQ((Image{120, 120}), on(121));
  for (const int none : {70, 72, 52, 110}) EXPECT_EQ(Image{}, on(none)) << none;
}

TEST(Images, CodeForOneArchitectureRunsOnThatAlone) {
  const auto code = fat_binary({{100, false, true}, {75}});
  EXPECT_EQ((Image{100, 100}), choose_image(code.data(), 100));
  EXPECT_EQ(Image{}, choose_image(code.data(), 103));
}

TEST(Images, PtxIsCompiledWhereNoMachineCodeRuns) {
  const auto code = fat_binary({{75}, {80, true}, {86, true}, {90, true, true}});
  EXPECT_EQ((Image{75, 75}), choose_image(code.data(), 75));
  EXPECT_EQ((Image{89, 86}), choose_image(code.data(), 89)) << "binary of the device, PTX 8.6";
  EXPECT_EQ((Image{120, 86}), choose_image(code.data(), 120)) << "sm_90a's PTX is no forward code";
  EXPECT_EQ(Image{}, choose_image(code.data(), 70));
}

TEST(Images, CubinsAndPtxTextOfModules) {
  for (const unsigned abi : {7u, 8u}) {
    EXPECT_EQ((Image{86, 86}), choose_image(cubin(86, abi).data(), 89)) << abi;
    EXPECT_EQ(Image{}, choose_image(cubin(86, abi).data(), 90)) << abi;
  }
  const char* const ptx = ".version 8.7\n.target sm_86\n.address_size 64\n";
  EXPECT_EQ((Image{90, 86}), choose_image(ptx, 90));
  EXPECT_EQ(Image{}, choose_image(ptx, 80));
  EXPECT_EQ(Image{}, choose_image("// made by\n.version 8.7\n.target sm_90a\n", 100));
}

TEST(Images, WithoutOneALaunchFailsAndRegistrationDoesNot) {
  constexpr static char ours = 0, others = 0;
  static const auto runs = fat_binary({{90}}), does_not = fat_binary({{75}, {100}});
  struct {
    std::uint32_t magic = 0x466243b1, version = 1;
    const void *container, *rest = nullptr;
  } first{.container = runs.data()}, second{.container = does_not.data()};
  void** const a = register_kernel(&ours, "ours", &first);
  void** const b = register_kernel(&others, "others", &second);
  EXPECT_EQ(cudaSuccess, launch(&ours)) << "the profile is h100-80g, 9.0";
  EXPECT_EQ(cudaErrorNoKernelImageForDevice, launch(&others));
  EXPECT_STREQ("no kernel image is available for execution on the device",
               cudaGetErrorString(cudaGetLastError()));
  cudaFuncAttributes attributes = {};
  CUDA(cudaFuncGetAttributes(&attributes, &ours));
  EXPECT_EQ(90, attributes.binaryVersion);
  EXPECT_EQ(90, attributes.ptxVersion);
  EXPECT_EQ(cudaErrorNoKernelImageForDevice, cudaFuncGetAttributes(&attributes, &others));
  CUmodule module = nullptr;
  EXPECT_EQ(CUDA_ERROR_NO_BINARY_FOR_GPU, cuModuleLoadData(&module, does_not.data()));
  EXPECT_EQ(CUDA_SUCCESS, cuModuleLoadData(&module, runs.data()));
  cudaGetLastError();
  __cudaUnregisterFatBinary(a);
  __cudaUnregisterFatBinary(b);
}

// What a damaged file states of itself is not followed beyond its end.
TEST(Images, AFileHasAllPartsThatItStates) {
  const auto whole = fat_binary(kWheel);
  const auto loads = [](const std::vector<char>& code) {
    const std::string path = testing::TempDir() + "tidemark_image_test";
    std::ofstream(path, std::ios::binary).write(code.data(), std::ssize(code));
    CUmodule module = nullptr;
    const CUresult result = cuModuleLoad(&module, path.c_str());
    std::remove(path.c_str());
    return result;
  };
  EXPECT_EQ(CUDA_SUCCESS, loads(whole)) << "the profile is h100-80g, 9.0";
  for (std::size_t bytes = 0; bytes < whole.size(); bytes += bytes < 20 ? 1 : 61) {
    const std::vector<char> cut(whole.begin(), whole.begin() + std::ptrdiff_t(bytes));
    EXPECT_EQ(CUDA_ERROR_INVALID_IMAGE, loads(cut)) << bytes;
  }
  for (const std::uint64_t stated :
       {~std::uint64_t{0}, ~std::uint64_t{63}, std::uint64_t{1} << 40}) {
    auto far = whole;
    std::memcpy(far.data() + 16 + 8, &stated, sizeof stated);  // bytes of the first entry's code
    EXPECT_EQ(CUDA_ERROR_NO_BINARY_FOR_GPU, loads(far)) << stated;
    std::memcpy(far.data() + 8, &stated, sizeof stated);  // bytes of all entries
    EXPECT_EQ(CUDA_ERROR_INVALID_IMAGE, loads(far)) << stated;
  }
  std::vector<char> wrapper(24);  // of a program: what it holds is a pointer
  const std::uint32_t magic[] = {0x466243b1, 1};
  std::memcpy(wrapper.data(), magic, sizeof magic);
  std::memset(wrapper.data() + 8, 0x41, 8);
  EXPECT_EQ(CUDA_ERROR_INVALID_IMAGE, loads(wrapper));
}

}  // namespace
