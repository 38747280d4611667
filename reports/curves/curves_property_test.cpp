// Loss curves from anywhere, in every format: read to the bit, or one line that says what is wrong.
#include <fmt/format.h>

#include <bit>
#include <cmath>

#include "harness/testing/property.h"
#include "reports/curves/curve.h"

namespace tidemark {
namespace {

using testing::accepts;
using testing::damaged;
using testing::for_all;

std::vector<CurvePoint> any_points() {
  std::vector<CurvePoint> points;
  std::int64_t step = 0;
  for (int i = *rc::gen::inRange(1, 20); i > 0; --i) {
    double value = std::bit_cast<double>(*rc::gen::arbitrary<std::uint64_t>());
    if (!std::isfinite(value)) value = 1;
    points.push_back({step, value});
    step += *rc::gen::inRange(1, 1000);
  }
  return points;
}

struct Written {
  const char* format;
  std::string text;
};

constexpr const char* kLogs[] = {
    "[rank0]: INFO - step: {:2}  loss: {}  grad_norm: 1.2  tps: 1,234",
    " [2025] iteration {:8}/ 1000 | consumed samples: 8 | lm loss: {} | nan: 0 |",
    "[INFO|DP=0]: iteration: {} / 9 | consumed_tokens: 65.5K | lm_loss: {} | lr: 3",
    "steps: {} loss: {} iter time (s): 0.519 samples/sec: 123.2",
    "step {} loss {} lr 0.1",
    "iter {}: loss {}, time 32.10ms, mfu 11.20%",
    "INFO step={}, loss={}, lr=0.0001",
    "Epoch 1, Step {}, Loss: {}, LR: 0.1"};

std::vector<Written> in_all_formats(const std::vector<CurvePoint>& points) {
  std::string text, csv = "step,loss\n", list = "[", lines;
  std::vector<Written> logs;
  for ([[maybe_unused]] const char* line : kLogs) logs.push_back({"log", ""});
  for (const auto& [step, value] : points) {
    text += fmt::format("{} {}\n", step, value);
    csv += fmt::format("{},{}\n", step, value);
    const auto object = fmt::format("{{\"step\": {}, \"loss\": {}}}", step, value);
    list += (list.size() > 1 ? ", " : "") + object;
    lines += object + "\n";
    for (std::size_t i = 0; i < logs.size(); ++i)
      logs[i].text +=
          "a line of another kind\n" + fmt::format(fmt::runtime(kLogs[i]), step, value) + "\n";
  }
  logs.insert(logs.end(), {{"text", text}, {"csv", csv}, {"json", list + "]"}, {"jsonl", lines}});
  return logs;
}

TEST(CurveProperties, EveryFormatIsReadToTheBit) {
  for_all(1000, [] {
    const auto points = any_points();
    for (const auto& [format, text] : in_all_formats(points)) {
      const auto file = parse_curves(text, "losses", format);
      const auto chosen = select(file, "");
      RC_ASSERT(chosen.size() == 1U);
      RC_ASSERT(chosen[0]->points.size() == points.size());
      for (std::size_t i = 0; i < points.size(); ++i) {
        RC_ASSERT(chosen[0]->points[i].step == points[i].step);
        RC_ASSERT(std::bit_cast<std::uint64_t>(chosen[0]->points[i].value) ==
                  std::bit_cast<std::uint64_t>(points[i].value));
      }
      if (points.size() > 1)  // one object alone is JSON
        RC_ASSERT(parse_curves(text, "losses").format == format);
    }
  });
}

TEST(CurveProperties, ADamagedFileIsCurvesOrAnErrorOfOneLine) {
  auto files = in_all_formats({{0, 1.5}, {1, 0.25}, {2, -3e-7}, {10, 1e300}});
  files.push_back(
      {"json",
       R"({"lm loss": {"start_step": 0, "end_step": 6, "step_interval": 2, "values": {"0": 9.5, "2": 8.25, "4": 7}}})"});
  for (const auto& [format, text] : files) ASSERT_EQ(parse_curves(text, "losses").format, format);
  int refused = 0;
  for_all(9000, [&] {
    const auto& [format, text] = *rc::gen::elementOf(files);
    const std::string wounded = *damaged(text);
    for (const char* as : {format, ""})
      refused += !accepts<std::runtime_error>([&] { parse_curves(wounded, "losses", as); });
  });
  EXPECT_GT(refused, 4500);
}

TEST(CurveProperties, RandomBytesAreCurvesOrAnErrorOfOneLine) {
  for_all(4000, [] {
    const auto bytes = *rc::gen::container<std::string>(rc::gen::arbitrary<char>());
    for (const char* as : {"", "text", "csv", "json", "jsonl", "log", "tensorboard", "report"})
      accepts<std::runtime_error>([&] { parse_curves(bytes, "losses", as); });
  });
}

}  // namespace
}  // namespace tidemark
