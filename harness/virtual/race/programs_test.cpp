// Every seeded race is found, between the operators that have it, in schedules in which the numbers
// would be right as well; and its corrected twin is clean.
#include <nlohmann/json.hpp>

#include "harness/virtual/operators/layer.h"
#include "harness/virtual/race/control.h"
#include "harness/virtual/race/testing.h"

namespace tidemark::race::testing {
namespace {

std::vector<Program> with_numbers() {
  std::vector<Program> all;
  for (const auto& programs : {stream_programs, memory_programs, transfer_programs})
    programs([&](auto... row) { all.push_back({row...}); });
  return all;
}

std::vector<Program> all_programs() {
  std::vector<Program> all = with_numbers();  // numbers of collectives need partners
  collective_programs([&](auto... row) { all.push_back({row...}); });
  return all;
}

using Case = std::tuple<Program, const char*, const char*>;  // and mode, schedule

class Programs : public ::testing::TestWithParam<Case> {
 protected:
  static void TearDownTestSuite() { EXPECT_EQ(0, tidemark_layer_install("off")); }
  static nlohmann::json races_of(bool right) {
    const auto& [program, mode, schedule] = GetParam();
    at::globalContext().lazyInitDevice(at::kCUDA);
    EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
    c10::cuda::CUDACachingAllocator::emptyCache();
    EXPECT_EQ(0, tidemark_device_set_schedule(schedule));
    tidemark_device_set_data(std::string(mode) == "math");
    tidemark_races_detect(1);
    if (std::string(tidemark_layer_mode()) != mode) {
      EXPECT_EQ(0, tidemark_layer_install(mode)) << tidemark_layer_error();
    }
    tidemark_races_phase(program.name);
    {
      Scene scene{right};
      program.run(scene);
    }
    for (int device : {1, 0}) {
      EXPECT_EQ(cudaSuccess, cudaSetDevice(device));
      EXPECT_EQ(cudaSuccess, cudaDeviceSynchronize());
    }
    const std::string text = device::testing::text_of(tidemark_races_read);
    tidemark_races_detect(0);
    return nlohmann::json::parse(text);
  }
};

// holds: harness/virtual/README.md, Races
TEST_P(Programs, RaceIsFound) {
  const auto& program = std::get<0>(GetParam());
  const auto races = races_of(false);
  ASSERT_FALSE(races.empty());
  EXPECT_EQ(program.first, races[0]["first"]["op"]) << races.dump(1);
  EXPECT_EQ(program.second, races[0]["second"]["op"]) << races.dump(1);
  EXPECT_GT(races[0]["bytes"], 0);
  EXPECT_NE(std::string::npos, races[0]["explanation"].get<std::string>().find(program.name))
      << "the phase";
}

TEST_P(Programs, CorrectedTwinIsClean) {
  const auto races = races_of(true);
  EXPECT_TRUE(races.empty()) << races.dump(1);
}

std::string name_of(const ::testing::TestParamInfo<Case>& info) {
  return std::string(std::get<0>(info.param).name) + "_" + std::get<1>(info.param) + "_" +
         std::get<2>(info.param);
}
INSTANTIATE_TEST_SUITE_P(Shapes, Programs,
                         ::testing::Combine(::testing::ValuesIn(all_programs()),
                                            ::testing::Values("shapes"),
                                            ::testing::Values("instant", "calibrated", "lagging")),
                         name_of);
INSTANTIATE_TEST_SUITE_P(Math, Programs,
                         ::testing::Combine(::testing::ValuesIn(with_numbers()),
                                            ::testing::Values("math"),
                                            ::testing::Values("instant", "lagging")),
                         name_of);

TEST(Races, AreAtLeastTwentyFiveClasses) { EXPECT_GE(all_programs().size(), 25U); }

}  // namespace
}  // namespace tidemark::race::testing
