// Every reason not to run on a GPU: its line, its code, and which of two is said.
#include "harness/device/cuda_facts.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

namespace tidemark {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

CudaFacts good() {
  CudaFacts facts;
  facts.driver = "/lib/libcuda.so.1";
  facts.driver_version = 13010;
  facts.devices = 2;
  facts.place = "/site/nvidia";
  facts.nccl = facts.built_nccl = 22809;
  facts.torch = facts.built_torch = "2.11.0";
  facts.built_cuda = 13000;
  facts.memory = facts.needed = std::int64_t{80} << 30;
  return facts;
}

struct Case {
  const char* name;
  std::function<void(CudaFacts&)> change;
  int code;
  std::vector<const char*> says;
};

const Case kCases[] = {
    {"NoDriver", [](auto& f) { f.driver = ""; }, 77, {"no NVIDIA driver", "--device virtual"}},
    {"ToolkitStub", [](auto& f) { f.driver_error = 34; }, 77, {"no NVIDIA driver"}},
    {"TwoDrivers", [](auto& f) { f.driver_error = 803; }, 3, {"/lib/libcuda.so.1", "different"}},
    {"DriverSilent", [](auto& f) { f.driver_error = kSilent; }, 3, {"does not answer"}},
    {"DriverBroken", [](auto& f) { f.driver_error = 999; }, 3, {"error 999", "nvidia-smi"}},
    {"DriverOld",
     [](auto& f) { f.driver_version = 12040; },
     77,
     {"CUDA 12.4", "torch 2.11.0 needs 13.0", "update the driver"}},
    {"NoGpu", [](auto& f) { f.devices = 0; }, 77, {"finds no GPU"}},
    {"NoGpuSaysCuInit",
     [](auto& f) {
       f.driver_error = 100;
       f.devices = 0;
     },
     77,
     {"finds no GPU"}},
    {"GpuHidden",
     [](auto& f) {
       f.devices = 0;
       f.visible = "";
     },
     2,
     {"CUDA_VISIBLE_DEVICES= ", "unset it"}},
    {"GpuNamedWrongly",
     [](auto& f) {
       f.driver_error = 100;
       f.devices = 0;
       f.visible = "7";
     },
     2,
     {"CUDA_VISIBLE_DEVICES=7 "}},
    {"LibrariesMissing",
     [](auto& f) {
       f.missing = {"libcudnn.so.9", "libnccl.so.2"};
     },
     77,
     {"libcudnn.so.9, libnccl.so.2", "/site/nvidia", "ci/setup --cuda"}},
    {"RuntimeBroken",
     [](auto& f) { f.runtime_error = "initialization error"; },
     3,
     {"initialization error"}},
    {"OtherTorch", [](auto& f) { f.torch = "2.10.0"; }, 3, {"torch 2.10.0", "built with 2.11.0"}},
    {"OlderNccl", [](auto& f) { f.nccl = 22705; }, 3, {"NCCL 2.27.5", "needs 2.28.9"}},
    {"NewerNccl", [](auto& f) { f.nccl = 22900; }, 3, {"NCCL 2.29.0", "ci/setup --cuda"}},
    {"LittleMemory",
     [](auto& f) { f.needed = std::int64_t{100} << 30; },
     2,
     {"100.0 GiB", "80.0 GiB", "--size"}},
    // Two reasons: the message has the one that must be mended first.
    {"NoDriverNorLibraries",
     [](auto& f) {
       f.driver = "";
       f.missing = {"libnccl.so.2"};
     },
     77,
     {"no NVIDIA driver"}},
    {"OldDriverNorGpu",
     [](auto& f) {
       f.driver_version = 12000;
       f.devices = 0;
     },
     77,
     {"CUDA 12.0"}},
};

class Refused : public ::testing::TestWithParam<Case> {};

TEST_P(Refused, InOneLineThatSaysWhatToDo) {
  CudaFacts facts = good();
  GetParam().change(facts);
  const auto refused = refusal(facts);
  ASSERT_TRUE(refused);
  EXPECT_EQ(refused->code, GetParam().code) << refused->why;
  EXPECT_THAT(refused->why, Not(HasSubstr("\n")));
  for (const char* words : GetParam().says) EXPECT_THAT(refused->why, HasSubstr(words));
}

INSTANTIATE_TEST_SUITE_P(CudaFacts, Refused, ::testing::ValuesIn(kCases),
                         [](const auto& each) { return each.param.name; });

TEST(CudaFacts, AMachineThatHasEverythingIsTaken) { EXPECT_FALSE(refusal(good())); }

TEST(CudaFacts, WhatDoesNoHarmIsTaken) {
  for (const auto& change : std::vector<std::function<void(CudaFacts&)>>{
           [](auto& f) { f.visible = "0,1"; }, [](auto& f) { f.driver_version = 13000; },
           [](auto& f) { f.driver_version = 14020; }, [](auto& f) { f.nccl = 22807; },
           [](auto& f) { f.nccl = 0, f.torch = "", f.memory = 0; },  // not asked yet
       }) {
    CudaFacts facts = good();
    change(facts);
    const auto refused = refusal(facts);
    EXPECT_FALSE(refused) << refused->why;
  }
}

}  // namespace
}  // namespace tidemark
