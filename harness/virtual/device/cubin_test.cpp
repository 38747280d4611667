// Facts of a cubin, the modules that are loaded from one, and what a launch of its kernels makes
// unknown.
#include "harness/virtual/device/cubin.h"

#include <cuda.h>
#include <elf.h>

#include <cstdio>
#include <cstring>
#include <fstream>
#include <string>
#include <vector>

#include "harness/virtual/device/testing.h"

namespace {

using namespace tidemark::device::testing;
using tidemark::device::CompiledKernel;
using tidemark::device::kernels_of;

template <class T>
void put(std::string& to, T value) {
  to.append(reinterpret_cast<const char*>(&value), sizeof value);
}

std::string entry(std::uint8_t attribute, const std::vector<std::uint32_t>& words) {
  std::string text{4, static_cast<char>(attribute)};
  put(text, static_cast<std::uint16_t>(4 * words.size()));
  for (const auto word : words) put(text, word);
  return text;
}
std::string parameter(std::uint32_t number, std::uint32_t offset, std::uint32_t bytes) {
  return entry(0x17, {0, number | offset << 16, bytes << 18 | 0x1f000});
}
std::string stated(std::uint16_t bytes) {
  std::string text{3, 0x19};
  put(text, bytes);
  return text;
}

/// A cubin for compute capability 9.0 with the kernels "add" (`of_add` is what is stated about it)
/// and "none", which has no parameters.
std::string cubin(const std::string& of_add) {
  struct Section {
    std::string name, bytes;
    std::uint32_t type = SHT_PROGBITS, link = 0;
  };
  std::string symbols(sizeof(Elf64_Sym), '\0');
  for (const std::uint32_t name : {1, 5}) put(symbols, Elf64_Sym{.st_name = name});
  const std::vector<Section> sections{
      {"", "", SHT_NULL},
      {".shstrtab", ""},
      {".strtab", std::string("\0add\0none\0", 10), SHT_STRTAB},
      {".symtab", symbols, SHT_SYMTAB, 2},
      {".nv.info", entry(0x2f, {1, 26}) + entry(0x2f, {2, 8}) + entry(0x11, {1, 48})},
      {".nv.info.add", of_add},
      {".nv.info.none", ""},
      {".text.add", "code"},
      {".text.none", "code"},
      {".nv.shared.add", std::string(1024, '\0')}};
  std::string names, bytes(sizeof(Elf64_Ehdr), '\0');
  std::vector<Elf64_Shdr> headers;
  for (const Section& one : sections) {
    headers.push_back({.sh_name = static_cast<Elf64_Word>(names.size()),
                       .sh_type = one.type,
                       .sh_offset = bytes.size(),
                       .sh_size = one.bytes.size(),
                       .sh_link = one.link});
    names += one.name + '\0';
    bytes += one.bytes;
  }
  headers[1].sh_offset = bytes.size();
  bytes += names;
  Elf64_Ehdr header{.e_machine = 190,
                    .e_shoff = bytes.size(),
                    .e_flags = 0x500 | 90,
                    .e_shentsize = sizeof(Elf64_Shdr),
                    .e_shnum = static_cast<Elf64_Half>(sections.size()),
                    .e_shstrndx = 1};
  std::memcpy(header.e_ident, "\177ELF\2\1\1\x33\7", 9);
  std::memcpy(bytes.data(), &header, sizeof header);
  for (const auto& one : headers) put(bytes, one);
  return bytes;
}

const std::string kPointerAndStruct = parameter(1, 8, 24) + parameter(0, 0, 8) + stated(32);

TEST(Cubin, StatesRegistersSharedAndLocalMemoryAndParameters) {
  const auto code = cubin(kPointerAndStruct + entry(0x10, {32, 4, 1}));
  auto kernels = kernels_of(code.data());
  ASSERT_TRUE(kernels && kernels->size() == 2);
  const CompiledKernel &add = kernels->at("add"), &none = kernels->at("none");
  EXPECT_EQ(26, add.registers);
  EXPECT_EQ(128, add.max_threads);
  EXPECT_EQ(1024u, add.shared);
  EXPECT_EQ(48u, add.local);
  EXPECT_EQ((std::vector<std::size_t>{8, 24}), add.parameters);
  EXPECT_EQ(8, none.registers);
  EXPECT_EQ(1024, none.max_threads);
  EXPECT_EQ(std::vector<std::size_t>{}, none.parameters);
}

TEST(Cubin, ParametersThatDoNotAddUpAreNotKnown) {
  EXPECT_EQ(std::nullopt,
            kernels_of(cubin(parameter(0, 0, 8) + stated(16)).data())->at("add").parameters);
  EXPECT_EQ(std::nullopt, kernels_of(cubin(parameter(0, 0, 8)).data())->at("add").parameters);
  EXPECT_EQ(std::nullopt, kernels_of(cubin(stated(8)).data())->at("add").parameters);
}

TEST(Cubin, IsNotPtx) { EXPECT_EQ(std::nullopt, kernels_of(".version 8.7\n.target sm_90\n")); }

CUfunction loaded(const std::string& code, const char* name) {
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  EXPECT_EQ(CUDA_SUCCESS, cuModuleLoadData(&module, code.data()));
  EXPECT_EQ(CUDA_SUCCESS, cuModuleGetFunction(&function, module, name));
  return function;
}

// Triton 3.8 asks for a mode of shared memory that this driver does not have, and takes the older
// way only where that is an error.
TEST(Cubin, AnAttributeOrAConfigurationThatIsNotKnownIsAnError) {
  const auto code = cubin(kPointerAndStruct);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuModuleLoadData(&module, code.data()));
  ASSERT_EQ(CUDA_SUCCESS, cuModuleGetFunction(&function, module, "add"));
  const auto set = [&](int attribute, int value) {
    return cuFuncSetAttribute(function, static_cast<CUfunction_attribute>(attribute), value);
  };
  for (int attribute = -2; attribute < 64; ++attribute) {
    const bool settable = attribute == CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES ||
                          attribute == CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT ||
                          (attribute >= CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH &&
                           attribute < CU_FUNC_ATTRIBUTE_MAX);
    EXPECT_EQ(settable ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE, set(attribute, 1)) << attribute;
  }
  constexpr int dynamic = CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES;
  EXPECT_EQ(CUDA_SUCCESS, set(dynamic, 227 << 10));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, set(dynamic, (227 << 10) + 1)) << "an H100 has 227 KiB";
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, set(dynamic, -1));
  int value = 0;
  EXPECT_EQ(CUDA_SUCCESS,
            cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, function));
  EXPECT_EQ(227 << 10, value);
  for (int config = -1; config < 6; ++config)
    EXPECT_EQ(config >= 0 && config <= 3 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE,
              cuFuncSetCacheConfig(function, static_cast<CUfunc_cache>(config)));
  CUlaunchAttribute attribute{};
  attribute.id = static_cast<CUlaunchAttributeID>(99);
  CUlaunchConfig launch{.gridDimX = 1,
                        .gridDimY = 1,
                        .gridDimZ = 1,
                        .blockDimX = 1,
                        .blockDimY = 1,
                        .blockDimZ = 1,
                        .sharedMemBytes = 0,
                        .hStream = nullptr,
                        .attrs = &attribute,
                        .numAttrs = 1};
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(&launch, function, nullptr, nullptr));
  EXPECT_EQ(CUDA_SUCCESS, cuModuleUnload(module));
}

TEST(Cubin, AModuleHasItsKernelsAndNoOthers) {
  const auto code = cubin(kPointerAndStruct);
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuModuleLoadData(&module, code.data()));
  EXPECT_EQ(CUDA_ERROR_NOT_FOUND, cuModuleGetFunction(&function, module, "sub"));
  ASSERT_EQ(CUDA_SUCCESS, cuModuleGetFunction(&function, module, "add"));
  int value = 0;
  const auto is = [&](CUfunction_attribute attribute) {
    EXPECT_EQ(CUDA_SUCCESS, cuFuncGetAttribute(&value, attribute, function));
    return value;
  };
  EXPECT_EQ(26, is(CU_FUNC_ATTRIBUTE_NUM_REGS));
  EXPECT_EQ(48, is(CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES));
  EXPECT_EQ(1024, is(CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES));
}

TEST(Cubin, AModuleIsLoadedFromAFile) {
  const std::string path = testing::TempDir() + "tidemark_cubin_test";
  const auto code = cubin(kPointerAndStruct);
  std::ofstream(path, std::ios::binary) << code;
  CUmodule module = nullptr;
  CUfunction function = nullptr;
  ASSERT_EQ(CUDA_SUCCESS, cuModuleLoad(&module, path.c_str()));
  EXPECT_EQ(CUDA_SUCCESS, cuModuleGetFunction(&function, module, "add"));
  for (const std::size_t bytes : {std::size_t{20}, sizeof(Elf64_Ehdr), code.size() - 1}) {
    std::ofstream(path, std::ios::binary) << code.substr(0, bytes);
    EXPECT_EQ(CUDA_ERROR_INVALID_IMAGE, cuModuleLoad(&module, path.c_str())) << bytes;
  }
  std::remove(path.c_str());
  EXPECT_EQ(CUDA_ERROR_FILE_NOT_FOUND, cuModuleLoad(&module, path.c_str()));
}

struct CubinLaunch : Calibrated {
  void SetUp() override { tidemark_device_set_data(2); }  // mode known
};

TEST_F(CubinLaunch, MakesUnknownWhatItsParametersPointTo) {
  const Memory first(512), second(512), third(512);
  for (void* one : {first.at, second.at, third.at}) CUDA(cudaMemset(one, 1, 512));
  struct {
    long number;
    void* inside;
    long last;
  } packed{1, second, 0};
  void* behind[] = {first, third};  // the second pointer is no argument
  void* arguments[] = {&behind, &packed};
  const CUlaunchConfig config{
      .gridDimX = 1, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 32, .blockDimY = 1, .blockDimZ = 1};
  const CUfunction add = loaded(cubin(kPointerAndStruct), "add");
  EXPECT_EQ(CUDA_SUCCESS, cuLaunchKernelEx(&config, add, arguments, nullptr));
  EXPECT_FALSE(tidemark_device_is_known(first, 512));
  EXPECT_FALSE(tidemark_device_is_known(second, 512));
  EXPECT_TRUE(tidemark_device_is_known(third, 512));
  EXPECT_EQ(CUDA_ERROR_INVALID_VALUE, cuLaunchKernelEx(nullptr, add, arguments, nullptr));
  auto too_many = config;
  too_many.blockDimX = 2048;
  EXPECT_NE(CUDA_SUCCESS, cuLaunchKernelEx(&too_many, add, arguments, nullptr));
}

TEST_F(CubinLaunch, LeavesKnownWhatTheKernelOnlyReads) {
  const Memory read(512), written(512);
  const CUfunction add = loaded(cubin(parameter(0, 0, 8) + parameter(1, 8, 8) + stated(16)), "add");
  void *first = read, *second = written;
  void* arguments[] = {&first, &second};
  const unsigned char only[] = {1, 0};
  tidemark_device_kernel_reads(add, only, 2);
  for (void* one : {first, second}) CUDA(cudaMemset(one, 1, 512));
  EXPECT_EQ(CUDA_SUCCESS, cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
  EXPECT_TRUE(tidemark_device_is_known(read, 512));
  EXPECT_FALSE(tidemark_device_is_known(written, 512));
  first = written;  // both arguments point to it
  CUDA(cudaMemset(written, 1, 512));
  EXPECT_EQ(CUDA_SUCCESS, cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
  EXPECT_FALSE(tidemark_device_is_known(written, 512));
}

TEST_F(CubinLaunch, MakesUnknownWhatADescriptorOfATensorPointsTo) {
  const Memory memory(512);
  CUDA(cudaMemset(memory, 1, 512));
  const cuuint64_t sizes[] = {128};
  const cuuint32_t box[] = {32}, steps[] = {1};
  CUtensorMap map;
  ASSERT_EQ(CUDA_SUCCESS, cuTensorMapEncodeTiled(
                              &map, CU_TENSOR_MAP_DATA_TYPE_FLOAT32, 1, memory, sizes, nullptr, box,
                              steps, CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                              CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
  void* arguments[] = {&map};
  const CUfunction add = loaded(cubin(parameter(0, 0, sizeof map) + stated(sizeof map)), "add");
  EXPECT_EQ(CUDA_SUCCESS, cuLaunchKernel(add, 1, 1, 1, 32, 1, 1, 0, nullptr, arguments, nullptr));
  EXPECT_FALSE(tidemark_device_is_known(memory, 512));
}

}  // namespace
