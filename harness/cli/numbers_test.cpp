// The numbers that a run writes: tensors to the bit, and never more than the limit.
#include "harness/cli/numbers.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>

#include "reports/numbers/numbers.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

class NumbersWritten : public ::testing::Test {
 protected:
  void TearDown() override { fs::remove_all(folder_); }
  void save(NumbersFiles& files, const char* variant, const Numbers& numbers) {
    TrialRecord trial;
    trial.scenario = "toy";
    trial.mode = Mode::math;
    files.save(trial, {variant, Role::fixed, ""}, 1, numbers, oracle_);
  }
  const fs::path folder_ =
      fs::temp_directory_path() / ("numbers-written-" + std::to_string(getpid()));
  Oracle oracle_{.loss_tolerance = {1.5e-6, 3e-6},
                 .gradient_tolerance = {1e-6, 5e-7},
                 .parameter_tolerance = {9},
                 .plain_parameter_tolerance = {4e-6},
                 .why = "why"};
};

TEST_F(NumbersWritten, AreTheTensorsToTheBit) {
  const at::Tensor weight = at::rand({6, 4}).t(), half = at::rand({5}).to(at::kBFloat16),
                   exact = at::rand({2}, at::kDouble);
  NumbersFiles files(folder_, "virtual x", 2);
  save(files, "keep",
       {{{0, 0.5}, {1, 0.25}}, {{"w", 24, weight}}, {{"b", 0, half}, {"d", 0, exact}}});
  const auto logs = read_numbers(folder_);
  ASSERT_EQ(logs.size(), 1u);
  const NumbersLog& log = logs[0];
  EXPECT_EQ(log.name(), "toy//r1/math//keep/rank1");
  EXPECT_EQ(log.role, Role::fixed);
  EXPECT_EQ(log.device, "virtual x");
  EXPECT_EQ(log.arithmetic, arithmetic().text);
  EXPECT_EQ(log.tolerance, 1e-6);
  EXPECT_DOUBLE_EQ(log.loss_condition, 3);
  EXPECT_DOUBLE_EQ(log.parameter_condition, 4);
  EXPECT_EQ(log.loss, (std::vector<double>{0.5, 0.25}));
  const ShardNumbers& w = log.gradients.at(0);
  EXPECT_EQ(w.offset, 24);
  EXPECT_EQ(w.shape, (std::vector<std::int64_t>{4, 6}));
  const at::Tensor rows = weight.contiguous();
  ASSERT_EQ(w.bytes.size(), rows.nbytes());
  EXPECT_EQ(std::memcmp(w.bytes.data(), rows.const_data_ptr(), rows.nbytes()), 0);
  EXPECT_EQ(log.parameters.at(0).dtype, "BF16");
  EXPECT_EQ(log.parameters[0][3], half[3].item<double>());
  EXPECT_EQ(log.parameters.at(1)[1], exact[1].item<double>());
}

TEST_F(NumbersWritten, StopWhereTheyWouldBeTooMuchAndSaySo) {
  NumbersFiles files(folder_, "virtual x", 2, 2 << 20);  // a MiB a rank
  const Numbers some{{}, {{"w", 0, at::zeros({200'000})}}, {}};
  const Numbers few{{}, {{"w", 0, at::zeros({2})}}, {}};
  ::testing::internal::CaptureStderr();
  save(files, "first", some);
  save(files, "second", some);
  save(files, "third", few);
  EXPECT_EQ(::testing::internal::GetCapturedStderr(),
            "note: --numbers: those of toy//r1/math//second/rank1 and of all that follows are left "
            "out: the ranks together write at most 2 MiB (fewer trials, or a smaller size)\n");
  ASSERT_EQ(read_numbers(folder_).size(), 1u);
  EXPECT_EQ(read_numbers(folder_)[0].variant, "first");
}

TEST_F(NumbersWritten, OfATypeWithoutANameAreRefused) {
  NumbersFiles files(folder_, "virtual x", 1);
  EXPECT_THROW(save(files, "keep", {{}, {{"w", 0, at::zeros({2}, at::kHalf)}}, {}}),
               std::runtime_error);
  EXPECT_FALSE(fs::exists(folder_));
}

}  // namespace
}  // namespace tidemark
