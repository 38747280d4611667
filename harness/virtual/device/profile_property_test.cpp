// Profiles of GPUs from anywhere: a profile whose figures can be computed with, or one line.
#include <unistd.h>

#include <cmath>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "harness/testing/property.h"
#include "harness/virtual/device/profile.h"

namespace tidemark::device {
namespace {

using tidemark::testing::accepts;
using tidemark::testing::damaged;
using tidemark::testing::for_all;
using Json = nlohmann::ordered_json;

std::string shipped() {
  std::ifstream file(TIDEMARK_PROFILE_FILE);
  std::stringstream text;
  text << file.rdbuf();
  return text.str();
}

class ProfileProperties : public ::testing::Test {
 protected:
  void SetUp() override { ASSERT_EQ(load(shipped()), true); }
  void TearDown() override { std::filesystem::remove(path_); }

  bool load(const std::string& text) const {
    std::ofstream(path_, std::ios::binary) << text;
    return accepts<std::runtime_error>([&] {
      const Profile p = load_profile(path_);
      RC_ASSERT(p.memory_bytes > 0U);
      RC_ASSERT(p.multiprocessors > 0);
      for (const double figure : {p.memory_gbps, p.pcie_gbps, p.links.nvlink_gbps})
        RC_ASSERT(std::isfinite(figure) && figure >= 0);
      for (const Ns time : {p.launch, p.kernel_latency, p.poll, p.synchronise, p.allocate,
                            p.release, p.pcie_latency})
        RC_ASSERT(time >= 0);
      RC_ASSERT(p.duration({.flops = 1e12, .bytes = 1e9}) >= p.kernel_latency);
    });
  }
  const std::string path_ = (std::filesystem::temp_directory_path() /
                             ("tidemark-profile-" + std::to_string(getpid()) + ".json"))
                                .string();
};

TEST_F(ProfileProperties, ADamagedFileIsAProfileOrAnErrorOfOneLine) {
  int refused = 0;
  for_all(1000, [&] { refused += !load(*damaged(shipped())); });
  EXPECT_GT(refused, 200);
}

TEST_F(ProfileProperties, RandomValuesInRandomPlacesAreAProfileOrAnErrorOfOneLine) {
  const Json whole = Json::parse(shipped());
  std::vector<std::string> places;
  const Json flat = whole.flatten();
  for (const auto& [place, value] : flat.items()) {
    const Json::json_pointer leaf(place);
    for (auto at = leaf; !at.empty(); at = at.parent_pointer()) places.push_back(at.to_string());
  }
  const Json others = Json::parse(
      R"([null, -1, 0, 1e300, -1e300, 3e9, 2.5, 1e19, "text", true, [], {}, {"value": 1e30}])");
  int refused = 0;
  for_all(1000, [&] {
    Json edited = whole;
    edited[Json::json_pointer(*rc::gen::elementOf(places))] =
        others[*rc::gen::inRange<std::size_t>(0, others.size())];
    const std::string text = edited.dump();
    RC_LOG() << text;
    refused += !load(text);
  });
  EXPECT_GT(refused, 200);
}

}  // namespace
}  // namespace tidemark::device
