// The formats in which people keep their losses, by content; and what is no such file.
#include <gmock/gmock.h>

#include <cmath>

#include "harness/record/json.h"
#include "harness/record/number.h"
#include "harness/testing/refusal.h"
#include "reports/curves/curve.h"
#include "reports/curves/testing/events_file.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::string shown(const CurveFile& file) {
  std::string out = file.format + ":";
  for (const Curve& curve : file.curves) {
    out += " " + curve.name;
    for (const CurvePoint& p : curve.points)
      out += " " + std::to_string(p.step) + "=" + std::to_string(p.value);
  }
  return out;
}

std::string read(const std::string& text, const std::string& format = "") {
  std::string out;
  const std::string why = refusal([&] { out = shown(parse_curves(text, "f", format)); });
  if (!out.empty()) return out;
  EXPECT_THAT(why, testing::StartsWith("f: "));
  return why;
}

TEST(Curves, TextLines) {
  EXPECT_EQ(read("0 1.5\n1 0.25\n"), "text: loss 0=1.500000 1=0.250000");
  EXPECT_EQ(read("# a comment\r\n\r\n  7\t1e2 \r\n3   0x1.8p+1\r\n"),
            "text: loss 3=3.000000 7=100.000000");
  EXPECT_EQ(read("step loss grad_norm\n1 2 3\n2 1 4\n"),
            "text: loss 1=2.000000 2=1.000000 grad_norm 1=3.000000 2=4.000000");
  EXPECT_EQ(read("0 nan\n1 inf\n2 -Infinity"), "text: loss 0=nan 1=inf 2=-inf");
  EXPECT_EQ(read("\xef\xbb\xbf"
                 "0 1\n"),
            "text: loss 0=1.000000");
}

TEST(Curves, Csv) {
  EXPECT_EQ(read("Wall time,Step,Value\n1.5,10,2.5\n1.7,20,2.25\n"),
            "csv: Value 10=2.500000 20=2.250000");
  EXPECT_EQ(read("\"Step\";\"a \"\"run\"\" - loss\"\n0;1\n1;\n2;3\n"),
            "csv: a \"run\" - loss 0=1.000000 2=3.000000");
  EXPECT_EQ(read("0,1\n1,2\n"), "csv: loss 0=1.000000 1=2.000000");
  EXPECT_EQ(read("iteration\tlm loss\n5\t1\n"), "csv: lm loss 5=1.000000");
  EXPECT_EQ(read("step,loss\n1.0,2\n"), "csv: loss 1=2.000000");
}

TEST(Curves, JsonInItsForms) {
  EXPECT_EQ(
      read("{\"step\": 0, \"loss\": 1.5, \"note\": \"NaN here\"}\n{\"loss\": NaN, \"step\": 1}\n"),
      "jsonl: loss 0=1.500000 1=nan");
  EXPECT_EQ(read("{\"iteration\": 3, \"loss\": \"-Infinity\", \"lr\": 0.5}"),
            "json: loss 3=-inf lr 3=0.500000");
  EXPECT_EQ(read("[{\"step\": 1, \"loss\": 2}, {\"step\": 2, \"loss\": 1}]"),
            "json: loss 1=2.000000 2=1.000000");
  EXPECT_EQ(read("{\"log_history\": [{\"loss\": 2, \"step\": 5}, {\"eval\": 1, \"step\": 5}]}"),
            "json: loss 5=2.000000");
}

TEST(Curves, MegatronGoldenValues) {
  EXPECT_EQ(read(R"({"lm loss": {"start_step": 1, "end_step": 11, "step_interval": 5,
                     "values": {"1": 10.5, "6": 9.25, "11": "nan"}},
                     "num-zeros": {"start_step": 1, "end_step": 11, "step_interval": 5,
                     "values": {"1": 7, "6": 8, "11": 9}}})"),
            "json: lm loss 1=10.500000 6=9.250000 11=nan num-zeros 1=7.000000 6=8.000000 "
            "11=9.000000");
  EXPECT_EQ(read(R"({"lm loss": {"start_step": 0, "end_step": 100, "step_interval": 5,
                     "values": [3, 2, 1]}})"),
            "json: lm loss 0=3.000000 5=2.000000 10=1.000000");
  EXPECT_THAT(read(R"({"l": {"values": {"x": 1}}})"), HasSubstr("'x' is not a step"));
  EXPECT_THAT(read(R"({"l": {"values": 3}})"), HasSubstr("neither an object nor a list"));
  EXPECT_THAT(read(R"({"l": {"step_interval": 0, "values": [1]}})"), HasSubstr("less than 1"));
}

// Lines as torchtitan and Megatron-LM print them, among others.
TEST(Curves, LogsOfTrainers) {
  EXPECT_EQ(
      read(
          "[rank0]:[titan] 2025-02-01 10:00:00,123 - root - INFO - Building llama3 8B\n"
          "[rank0]:[titan] 2025-02-01 10:00:09,001 - root - INFO - \x1b[31mstep:  1  \x1b[32m"
          "loss: 12.2538  \x1b[38;2;180;60;0mgrad_norm:  4.0711  \x1b[36mmemory: 37.58GiB(47.53%)"
          "  \x1b[34mtps: 1,234  \x1b[35mmfu: 8.31%\x1b[39m\n"
          "[rank0]:[titan] 2025-02-01 10:00:11,001 - root - INFO - step: 10  loss:  9.8001  "
          "grad_norm:  2.5000\n"
          "[rank0]:[titan] 2025-02-01 10:00:12,001 - root - INFO - validate step: 10  loss: 9.9\n"),
      "log: loss 1=12.253800 10=9.800100 grad_norm 1=4.071100 10=2.500000 validate loss "
      "10=9.900000");
  EXPECT_EQ(read("training ...\n"
                 " [2025-02-01 10:00:00] iteration        5/     100 | consumed samples:           "
                 "80 | elapsed time per iteration (ms): 812.5 | learning rate: 1.500000E-05 | lm "
                 "loss: 1.083750E+01 | number of nan iterations:   0 |\n"
                 "(min, max) time across ranks (ms):\n"
                 " [2025-02-01 10:00:04] iteration       10/     100 | consumed samples:          "
                 "160 | lm loss: nan |\n"),
            "log: consumed samples 5=80.000000 10=160.000000 elapsed time per iteration (ms) "
            "5=812.500000 learning rate 5=0.000015 lm loss 5=10.837500 10=nan number of nan "
            "iterations 5=0.000000");
  EXPECT_THAT(read("step: 1  loss: 2\nstep: 2  loss: high\n"),
              HasSubstr("line 2: 'high' is not a number"));
}

TEST(Curves, TheExportOfWandb) {
  const CurveFile file = parse_curves(
      "\"Step\",\"a run - train/loss\",\"a run - train/loss__MIN\",\"a run - train/loss__MAX\",\"a "
      "run - lr\"\n\"1\",\"2.5\",\"2.5\",\"2.5\",\"1\"\n\"2\",\"2.25\",\"2.25\",\"2.25\",\"1\"\n",
      "f");
  EXPECT_EQ(shown(file),
            "csv: a run - train/loss 1=2.500000 2=2.250000 a run - lr 1=1.000000 "
            "2=1.000000");
  ASSERT_EQ(select(file, "").size(), 1u);
  EXPECT_EQ(select(file, "")[0]->name, "a run - train/loss");
  EXPECT_EQ(read("{\"_step\": 3, \"_timestamp\": 1.7e9, \"train/loss\": 2}\n{\"_step\": 4, "
                 "\"train/loss\": 1}\n"),
            "jsonl: train/loss 3=2.000000 4=1.000000");
}

TEST(Curves, EventsOfTensorBoard) {
  const std::string file = events_file();
  EXPECT_EQ(read(file), "tensorboard: Loss/train 3=2.500000 4=0.100000 lr 4=0.250000 5=0.500000");
  EXPECT_EQ(parse_curves(file, "f").curves[0].points[1].value, static_cast<double>(0.1f));
  for (std::size_t i = 12; i < file.size(); ++i) {  // the first length makes it such a file
    std::string wounded = file;
    wounded[i] = static_cast<char>(wounded[i] ^ 4);
    EXPECT_THAT(read(wounded), HasSubstr("f: event ")) << i;
  }
}

TEST(Curves, TidemarksReport) {
  const CurveFile file = parse_curves(json_text(small_report()), "f");
  EXPECT_EQ(file.format, "report");
  ASSERT_EQ(file.curves.size(), 4u);
  EXPECT_EQ(file.curves[1].name, "fsdp_prefetch/smoke/r2/math/instant/stash");
  EXPECT_EQ(file.curves[1].points[1].value, 1.0 / 3);
  EXPECT_EQ(select(file, "*/instant/stash").size(), 1u);
  EXPECT_EQ(select(file, "fsdp_prefetch/smoke/r2/math/instant/stash").size(), 1u);
  EXPECT_EQ(select(file, "").size(), 4u);
  EXPECT_TRUE(select(file, "nosuch").empty());
  Report shapes = small_report();
  for (auto& trial : shapes.trials)
    for (auto& variant : trial.variants)
      for (auto& point : variant.loss) point.value.reset();
  EXPECT_THAT(read(json_text(shapes)), HasSubstr("mode shapes alone"));
}

TEST(Curves, AmongMetricsTheLossIsMeant) {
  const CurveFile file = parse_curves("step,lr,loss\n0,1,2\n", "f");
  ASSERT_EQ(select(file, "").size(), 1u);
  EXPECT_EQ(select(file, "")[0]->name, "loss");
  EXPECT_EQ(select(file, "l*").size(), 2u);
  const CurveFile two = parse_curves("step,lr,val_loss,ce_loss,kl_loss\n0,1,2,3,4\n", "f");
  ASSERT_EQ(select(two, "").size(), 2u);
  EXPECT_EQ(select(two, "")[0]->name, "ce_loss");
  EXPECT_EQ(select(parse_curves("step,lr,val_loss\n0,1,2\n", "f"), "").at(0)->name, "val_loss");
}

TEST(Curves, WithoutStepsValuesAreNumbered) {
  EXPECT_EQ(read("2.5\n1.5\n"), "text: loss 1=2.500000 2=1.500000");
  EXPECT_EQ(read("train_loss\n2.5\n1.5\n"), "text: train_loss 1=2.500000 2=1.500000");
  EXPECT_EQ(read("[2.5, 1.5]"), "json: loss 1=2.500000 2=1.500000");
  EXPECT_EQ(read(R"({"loss": [2.5, 1.5], "name": "run"})"), "json: loss 1=2.500000 2=1.500000");
  for (const char* text : {"2.5\n", "[2.5]", R"({"loss": [2.5]})"})
    EXPECT_THAT(parse_curves(text, "f").notes, ::testing::ElementsAre(HasSubstr("has no steps")));
  EXPECT_EQ(read(R"({"loss": [2.5, 1.5], "steps": [10, 20]})"),
            "json: loss 10=2.500000 20=1.500000");
  EXPECT_EQ(read("epoch,loss\n1,2.5\n2,1.5\n"), "csv: loss 1=2.500000 2=1.500000");
  EXPECT_EQ(read("{\"step\": 7, \"data\": {\"actor\": {\"pg_loss\": 2.5}}}"),
            "json: data/actor/pg_loss 7=2.500000");
}

TEST(Curves, AFileThatIsNoCurveIsAnErrorOfOneLine) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "holds no point"},
      {"# only a comment\n", "holds no point"},
      {"step,loss\n", "holds no point"},
      {"0 1\n1\n", "line 2: has 1 columns where the lines before have 2"},
      {"0 1 2\n", "no header says which is which"},
      {"0 one\n", "line 1: 'one' is not a number"},
      {"0 1\n1.5 2\n", "line 2: '1.5' is not a step"},
      {"0 1e999\n", "'1e999' is not a number"},
      {"time,loss\n0,1\n", "no column is named step"},
      {"{\"loss\": [1, 2], \"step\": [1]}", "another length than the list of steps"},
      {"step\n", "no column beside"},
      {"step,\"loss\n0,1\n", "quote is not closed"},
      {"{\"step\": 0, \"loss\": 1}\n{\"step\": 1, \"loss\"\n", "line 2: not JSON after byte"},
      {"{\"step\": 0, \"loss\": null}", "no loss in it is a number"},
      {"{\"step\": 0.5, \"loss\": 1}", "is not a step"},
      {"{\"loss\": 1}", "has no step"},
      {"[{\"step\": 1, \"loss\": 2}, 3]", "is number, not an object"},
      {"[[1, 2, 3]]", "item 0: '[1, 2, 3]' is not a number"},
      {"{", "not JSON after byte"},
      {"0 \"\x1b[31m\"\n", "is not a number"}};
  for (const auto& [text, says] : cases) EXPECT_THAT(read(text), HasSubstr(says)) << text;
  EXPECT_THAT(read(std::string("0 1\n\0", 5)), HasSubstr("is neither text nor"));
  EXPECT_THAT(read(std::string(100000, '[')), HasSubstr("nested more than 1,000 deep"));
}

TEST(Curves, AFormatMayBeSaid) {
  EXPECT_EQ(read("0 1,5\n", "text"), "f: line 1: '1,5' is not a number");
  EXPECT_THAT(read("0 1\n", "jsonl"), HasSubstr("line 1: not JSON"));
  EXPECT_THAT(read("{}", "report"), HasSubstr("missing key 'schema'"));
}

TEST(Curves, Numbers) {
  EXPECT_EQ(parse_number("+1.5"), 1.5);
  EXPECT_EQ(parse_number("-0x1p-3"), -0.125);
  EXPECT_TRUE(std::signbit(*parse_number("-0")));
  for (const char* bad : {"", "-", "+-1", "--1", "1 ", "nan(1)", "0x", "1e", "1_000", "infinit"})
    EXPECT_FALSE(parse_number(bad)) << bad;
  EXPECT_EQ(parse_step("12.0"), 12);
  EXPECT_EQ(parse_step("-3"), -3);
  EXPECT_FALSE(parse_step("1e300"));
  EXPECT_FALSE(parse_step("nan"));
}

}  // namespace
}  // namespace tidemark
