// The file of a rank's numbers: read as it was written, readable by others, and whatever is done to
// it is other numbers or one line.
#include "reports/numbers/numbers.h"

#include <gmock/gmock.h>

#include <bit>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>

#include "harness/testing/refusal.h"
#include "reports/numbers/safetensors.h"
#include "reports/numbers/sample.h"
#include "reports/testing/sample.h"
#include "reports/write.h"

namespace tidemark {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

TEST(Numbers, AreReadAsTheyWereWritten) {
  NumbersLog before = numbers_sample(1);
  before.role = Role::fixed;
  before.tolerance = 0x1.23456789abcdep-20;
  before.loss[1] = std::numeric_limits<double>::quiet_NaN();
  const std::string text = numbers_file(before);
  const NumbersLog after = parse_numbers(text, "here");
  EXPECT_EQ(numbers_file(after), text);
  EXPECT_EQ(after.name(), "toy/smoke/r2/math/lagging/keep/rank1");
  EXPECT_EQ(after.key(), before.key());
  EXPECT_EQ(after.role, Role::fixed);
  EXPECT_EQ(after.tolerance, before.tolerance);
  EXPECT_EQ(after.loss_condition, 2);
  EXPECT_EQ(after.parameter_condition, 1.5);
  EXPECT_EQ(after.why, "a bound on paper");
  EXPECT_TRUE(after.exact);
  ASSERT_EQ(after.gradients.size(), 2u);
  EXPECT_EQ(after.gradients[0].offset, 24);
  EXPECT_EQ(after.gradients[0].bytes, before.gradients[0].bytes);
  EXPECT_EQ(after.parameters[1].dtype, "BF16");
  EXPECT_EQ(after.parameters[1][2], 2.0);
  EXPECT_EQ(after.parameters[1][1], 0.5);
}

TEST(Numbers, AreAFileThatOthersRead) {
  const std::string text = numbers_file(numbers_sample());
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  EXPECT_EQ(length % 8, 0u);
  const auto header = nlohmann::json::parse(text.substr(8, length));
  EXPECT_EQ(header["__metadata__"]["trial"], "toy/smoke/r2/math");
  const auto& one = header["gradients/fc2[48:72]"];
  EXPECT_EQ(one["dtype"], "F32");
  EXPECT_EQ(one["shape"], std::vector<int>{24});
  float value = 0;
  std::memcpy(&value, text.data() + 8 + length + one["data_offsets"][0].get<std::size_t>() + 4 * 5,
              4);
  EXPECT_EQ(value, wave(24, 2)[5]);
  EXPECT_EQ(header["loss"]["dtype"], "F64");
}

TEST(Numbers, ARankWithoutAPartHasNone) {
  NumbersLog log = numbers_sample();
  log.gradients.push_back(shard_of("nobody's", {}));
  log.gradients.push_back(shard_of("nobody's", {}));
  EXPECT_EQ(parse_numbers(numbers_file(log), "here").gradients.size(), 2u);
  log.gradients.push_back(log.gradients[0]);
  EXPECT_THROW(numbers_file(log), std::logic_error);
}

std::string refused(const std::string& text) {
  return refusal([&] { parse_numbers(text, "here"); });
}

/// With this done to the header.
std::string with(auto act) {
  const std::string text = numbers_file(numbers_sample());
  std::uint64_t length = 0;
  std::memcpy(&length, text.data(), 8);
  auto header = nlohmann::ordered_json::parse(text.substr(8, length));
  act(header);
  const std::string changed = header.dump();
  length = text.size() - 8 - length;  // of the elements
  const auto size = static_cast<std::uint64_t>(changed.size());
  return std::string(reinterpret_cast<const char*>(&size), 8) + changed +
         text.substr(text.size() - length);
}

TEST(Numbers, ADamagedFileIsAnErrorOfOneLine) {
  using Json = nlohmann::ordered_json;
  const std::string text = numbers_file(numbers_sample());
  EXPECT_EQ(refused(with([](Json&) {})), kNothingRefused);
  EXPECT_THAT(refused(""), HasSubstr("here: is cut off"));
  EXPECT_THAT(refused(text.substr(0, 40)), HasSubstr("is cut off"));
  EXPECT_THAT(refused(text.substr(0, text.size() - 1)), HasSubstr("is cut off"));
  EXPECT_THAT(refused(text + "x"), HasSubstr("has 1 bytes after its last tensor"));
  EXPECT_THAT(refused("{\"schema\": \"tidemark/report\"}"), HasSubstr("not a safetensors file"));
  const char* name = "gradients/fc2[48:72]";
  const auto message_of = [&](auto act) { return refused(with(act)); };
  EXPECT_THAT(message_of([](Json& h) { h["__metadata__"]["format"] = "pt"; }),
              HasSubstr("is not 'tidemark"));
  EXPECT_THAT(message_of([](Json& h) { h["__metadata__"].erase("variant"); }),
              HasSubstr("lacks 'variant'"));
  EXPECT_THAT(message_of([](Json& h) { h["__metadata__"]["tolerance"] = "nan"; }),
              HasSubstr("tolerance: 'nan' is not a non-negative number"));
  EXPECT_THAT(message_of([](Json& h) { h["__metadata__"]["rank"] = "1.5"; }),
              HasSubstr("is not a rank"));
  EXPECT_THAT(message_of([](Json& h) { h["__metadata__"]["role"] = "judge"; }),
              HasSubstr("is not a role"));
  EXPECT_THAT(message_of([&](Json& h) { h[name]["dtype"] = "I8"; }),
              HasSubstr("elements of type I8"));
  EXPECT_THAT(message_of([&](Json& h) { h[name]["shape"] = {25}; }), HasSubstr("leave a hole"));
  EXPECT_THAT(message_of([&](Json& h) {
                h[name]["shape"] = {1LL << 33, 1LL << 33};
              }),
              HasSubstr("leave a hole"));
  EXPECT_THAT(message_of([&](Json& h) {
                h[name]["data_offsets"] = {0, 96};
              }),
              HasSubstr("leave a hole"));
  EXPECT_THAT(message_of([](Json& h) { h["loss"]["dtype"] = "F32", h["loss"]["shape"] = {6}; }),
              HasSubstr("losses are not F64"));
  EXPECT_EQ(message_of([](Json& h) {
              h["a\nb"] = {{"dtype", "I8"}, {"shape", {0}}};
            }).find('\n'),
            std::string::npos);
  for (const char* other : {"gradients/fc2[48:71]", "gradients/fc2", "gradients/fc2[48:7x]",
                            "gradients/fc2[-1:23]", "momenta/fc2[48:72]", "x\n"}) {
    const std::string what = message_of([&](Json& h) {
      Json again;
      for (const auto& [key, value] : h.items()) again[key == name ? other : key] = value;
      h = again;
    });
    EXPECT_THAT(what, HasSubstr("here: '")) << other;
    EXPECT_EQ(what.find('\n'), std::string::npos) << what;
  }
}

TEST(Numbers, RandomDamageIsOtherNumbersOrAnErrorOfOneLine) {
  const std::string text = numbers_file(numbers_sample());
  int changed = 0, wrong = 0;
  for_each_damage(text, std::string("\0\n -9\"\xff", 7), [&](const std::string& damaged) {
    const std::string message = refused(damaged);
    (message == kNothingRefused ? changed : wrong)++;
    if (message != kNothingRefused) {
      EXPECT_THAT(message, HasSubstr("here"));
    }
  });
  EXPECT_GT(changed, 1000);
  EXPECT_GT(wrong, 1000);
}

TEST(Numbers, AreFoundInARunsFolder) {
  const ScratchFolder scratch;
  const std::filesystem::path folder = scratch / "run";
  EXPECT_THROW(read_numbers(folder), std::runtime_error);
  TrialRecord trial;
  trial.scenario = "toy";
  for (const int rank : {1, 0})
    write_files(folder,
                {{numbers_path(trial, "keep", rank).string(), numbers_file(numbers_sample(rank))}});
  const auto logs = read_numbers(folder);
  ASSERT_EQ(logs.size(), 2u);
  EXPECT_EQ(logs[0].rank, 0);
  write_files(folder, {{"numbers/x.safetensors", "x"}});
  EXPECT_THROW(read_numbers(folder), std::runtime_error);
}

TEST(Numbers, AreApartByRepresentableOnes) {
  const float one = 1, next = std::nextafter(one, 2.F);
  EXPECT_EQ(ulps_apart(one, next, "F32"), 1);
  EXPECT_EQ(ulps_apart(-0.0, 0.0, "F32"), 0);
  EXPECT_EQ(ulps_apart(1, 1.0078125, "BF16"), 1);
  EXPECT_EQ(ulps_apart(1, -1.0078125, "BF16"), 2 * 0x3f80 + 1);
  EXPECT_EQ(ulps_apart(1, std::nextafter(1.0, 2.0), "F64"), 1);
  EXPECT_EQ(ulps_apart(1, std::nan(""), "F32"), std::numeric_limits<double>::infinity());
}

}  // namespace
}  // namespace tidemark
