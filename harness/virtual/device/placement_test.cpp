// Addresses by each rule, among them sequences that were recorded on GPUs (reports/measured): sizes
// in MiB, addresses in MiB from the beginning of the range.
#include "harness/virtual/device/placement.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <random>

namespace tidemark::device {
namespace {

using testing::ElementsAre;
constexpr std::size_t kMiB = std::size_t{1} << 20;
constexpr std::uintptr_t kBegin = std::uintptr_t{1} << 40;

class Range {
 public:
  Range(const char* name, std::size_t size)
      : placement_(make_placement(name, {kBegin, size * kMiB})) {}
  std::int64_t take(std::size_t size) {
    const std::uintptr_t at = placement_->take(size * kMiB);
    return at == 0 ? -1 : static_cast<std::int64_t>((at - kBegin) / kMiB);
  }
  std::vector<std::int64_t> take_all(std::initializer_list<std::size_t> sizes) {
    std::vector<std::int64_t> out;
    for (const std::size_t size : sizes) out.push_back(take(size));
    return out;
  }
  void give(std::int64_t at, std::size_t size) {
    placement_->give(kBegin + static_cast<std::uintptr_t>(at) * kMiB, size * kMiB);
  }
  Placement& operator*() { return *placement_; }

 private:
  std::unique_ptr<Placement> placement_;
};

TEST(Linux, TakesChunksDownwardsAndTheirRestsFirst) {
  Range range("linux", 1024);
  // linux_hopper_ctx128_fullstep: 100 at 46592, 46464, 46336; 26 at 46436, 46564, 46692; 26 at
  // 46304.
  EXPECT_THAT(range.take_all({100, 100, 100, 26, 26, 26, 26}),
              ElementsAre(896, 768, 640, 740, 868, 996, 608));
  EXPECT_EQ(636 - 2, range.take(2)) << "behind 26, in the newest chunk";
  EXPECT_EQ(544, range.take(40));
}

TEST(Linux, TakesTheSmallestGapOfTheNewestChunk) {
  Range range("linux", 256);
  // linux_hopper_ctx256_forward: of a chunk with 20 free, 2 taken, 10 free, 10 goes into the 10
  // first.
  EXPECT_THAT(range.take_all({20, 2}), ElementsAre(224, 244));
  range.give(224, 20);
  EXPECT_THAT(range.take_all({10, 10, 10}), ElementsAre(246, 224, 234));
}

TEST(Linux, AHoleHasAChunkMoreThanItGives) {
  Range range("linux", 512);
  // linux_hopper_ctx256_forward: of a hole of 64 at 5728, 64 go elsewhere and 32 to its upper half;
  // the lower half then stays free.
  EXPECT_THAT(range.take_all({32, 32, 32, 32}), ElementsAre(480, 448, 416, 384));
  range.give(416, 32);
  range.give(448, 32);
  EXPECT_EQ(320, range.take(64));
  EXPECT_EQ(448, range.take(32));
  EXPECT_EQ(288, range.take(32));
}

TEST(Linux, FillsTheRangeInTheEnd) {
  Range range("linux", 96);
  EXPECT_THAT(range.take_all({32, 32, 32, 2}), ElementsAre(64, 32, 0, -1));
}

constexpr const char* kRandom = "_Z44distribution_elementwise_grid_stride_kernelIfLi4E";

TEST(Wsl2, GivesItsFirstMemoryBackWithTheFirstKernel) {
  // medium_512_inference from its first parameters on; a bf16 product comes before the gap ends.
  Range range("wsl2", 4096);
  EXPECT_THAT(range.take_all({40, 2, 20}), ElementsAre(198, 238, 240));
  EXPECT_EQ(260, range.take(1516 + 40)) << "the other parameters";
  (*range).launched(kRandom);  // the tokens
  EXPECT_EQ(1818, range.take(20)) << "behind 2 MiB of the driver";
  (*range).launched("index");
  EXPECT_EQ(0, range.take(20));
  (*range).used(Placement::Library::handle);
  (*range).used(Placement::Library::bf16_product);
  (*range).used(Placement::Library::bf16_product);
  EXPECT_THAT(range.take_all({20, 20, 32, 32}), ElementsAre(36, 56, 76, 108));
  EXPECT_EQ(2078, range.take(64)) << "behind 240 MiB of the driver";
}

TEST(Wsl2, OfAnotherGpuHoldsOtherSizes) {
  // wsl_from_zero_train_100, by its segments; weights are initialised by kernels.
  Range range("wsl2:80,96", 4096);
  EXPECT_EQ(80, range.take(20));
  (*range).launched(kRandom);
  (*range).launched("erfinv");
  EXPECT_THAT(range.take_all({2, 2, 2, 20, 2, 2, 2, 2, 20, 2, 2, 20, 20, 20, 2}),
              ElementsAre(0, 2, 4, 6, 26, 28, 30, 32, 34, 54, 56, 58, 198, 218, 78));
  EXPECT_EQ(238, range.take(150));
  (*range).used(Placement::Library::handle);
  EXPECT_EQ(398, range.take(20));
  EXPECT_EQ(418, range.take(384));
  (*range).used(Placement::Library::handle);
  EXPECT_EQ(810, range.take(2)) << "backward has a handle of its own";
}

TEST(Ascending, TakesTheLowestThatIsLongEnough) {
  Range range("ascending", 64);
  EXPECT_THAT(range.take_all({4, 2, 2}), ElementsAre(0, 4, 6));
  range.give(0, 4);
  EXPECT_THAT(range.take_all({6, 2, 2}), ElementsAre(8, 0, 2));
}

TEST(AnyPlacement, HandsOutDisjointRangesAndTakesAllBack) {
  for (const char* name : {"linux", "wsl2", "ascending"}) {
    SCOPED_TRACE(name);
    Range range(name, 4096);
    std::mt19937 random(1);
    std::map<std::int64_t, std::size_t> live;
    for (int i = 0; i < 5000; ++i) {
      if (live.empty() || random() % 2 == 0) {
        const std::size_t size = 2 * (1 + random() % 60);
        const std::int64_t at = range.take(size);
        if (at < 0) continue;
        ASSERT_LE(at + static_cast<std::int64_t>(size), 4096);
        const auto next = live.lower_bound(at);
        ASSERT_TRUE(next == live.end() || at + static_cast<std::int64_t>(size) <= next->first);
        ASSERT_TRUE(next == live.begin() ||
                    std::prev(next)->first + static_cast<std::int64_t>(std::prev(next)->second) <=
                        at);
        live.emplace(at, size);
      } else {
        const auto one =
            std::next(live.begin(), static_cast<std::ptrdiff_t>(random() % live.size()));
        range.give(one->first, one->second);
        live.erase(one);
      }
    }
    for (const auto& [at, size] : live) range.give(at, size);
    const bool wsl2 = std::string_view(name) == "wsl2";
    EXPECT_EQ(wsl2 ? 198 : 0, range.take(wsl2 ? 4096 - 198 : 4096)) << "one range again";
  }
}

TEST(AnyPlacement, ThereIsNoOther) {
  for (const char* name : {"windows", "wsl2:", "wsl2:80", "wsl2:81,96", "wsl2:0,96", "wsl2:2,2x"})
    EXPECT_EQ(nullptr, make_placement(name, {kBegin, 4096 * kMiB})) << name;
}

}  // namespace
}  // namespace tidemark::device
