// `compare losses`: exit codes, verdicts, and files that are hard to read.
#include <fmt/format.h>

#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/cli/testing/files_command.h"

namespace tidemark {
namespace {

using testing::HasSubstr;

TEST_F(Files, ParityOfCurvesInDifferentFormats) {
  const std::string text = put("a.txt", "0 0.1\n1 0.3333333333333333\n"),
                    csv = put("b.csv", "step,loss,lr\n1,0.3333333333333333,1\n0,0.1,1\n"),
                    lines =
                        put("c.jsonl", "{\"step\":0,\"loss\":0.1}\n{\"step\":1,\"loss\":0.34}\n"),
                    golden = put("d.json",
                                 "{\"lm loss\": {\"start_step\": 0, \"end_step\": 1, "
                                 "\"step_interval\": 1, \"values\": {\"0\": 0.1}}}");
  EXPECT_EQ(run({"compare", "losses", text, csv}).code, 0);
  const Result apart = run({"compare", "losses", text, lines});
  EXPECT_EQ(apart.code, 1);
  EXPECT_THAT(apart.out, HasSubstr("B has other bits than A from step 1 on; 2 common steps are too "
                                   "few to know the noise"));
  EXPECT_THAT(run({"compare", "losses", text, lines, "--mode", "exact"}).out,
              HasSubstr("first divergence at step 1: 0.3333333333333333 and 0.34"));
  EXPECT_EQ(run({"compare", "losses", text, lines, "--rtol", "0.03"}).code, 0);
  EXPECT_EQ(run({"compare", "losses", text, lines, "--mode", "tolerance", "--atol", "1e-3"}).code,
            1);
  EXPECT_EQ(run({"compare", "losses", text, lines, "--ulp", "1e6", "--precision", "float32"}).code,
            0);
  const Result missing = run({"compare", "losses", text, golden});
  EXPECT_EQ(missing.code, 1);
  EXPECT_THAT(missing.out, HasSubstr("missing in B: 1 step: 1"));
  EXPECT_EQ(run({"compare", "losses", text, golden, "--common"}).code, 0);
  const std::string base = folder_ / "base";
  EXPECT_EQ(run({"compare", "losses", base, base}).code, 0);
  EXPECT_EQ(run({"compare", "losses", base, text, "--select-a", "*/lagging/stash"}).code, 0);
  EXPECT_EQ(run({"compare", "losses", base, base, "--select-a", "*instant/stash", "--select-b",
                 "*instant/record_stream"})
                .code,
            0);
  EXPECT_EQ(run({"compare", "losses", text, put("far", "9 1\n")}).code, 4);

  refused({"compare", "losses", base, text}, "A has 4 curves");
  refused({"compare", "losses", base, text, "--select-a", "nosuch"}, "--select-a nosuch: no curve");
  refused({"compare", "losses", text, folder_ / "nosuch"}, "cannot be read");
  refused({"compare", "losses", text, csv, "--mode", "tolerance"}, "needs --rtol or --atol");
  refused({"compare", "losses", text, csv, "--mode", "ulp"}, "needs --ulp");
  refused({"compare", "losses", text, csv, "--mode", "exact", "--noise", text},
          "--noise needs --mode noise");
  refused({"compare", "losses", text, csv, "--noise", folder_ / "nosuch"}, "cannot be read");
  refused({"compare", "losses", text, csv, "--mode", "exact", "--rtol", "1"}, "takes no --rtol");
  refused({"compare", "losses", text, csv, "--rtol", "-1"}, "not negative");
  refused({"compare", "losses", text, csv, "--rtol", "nan"}, "must be finite");
  refused({"compare", "losses", text, csv, "--format-b", "jsonl"}, "not JSON");
  refused({"compare", "losses", text, put("empty.txt", "")}, "holds no point");
}

// Losses that fall from 9 to 2, with noise of `size` by a rule of its own for each `seed`.
std::string losses(int steps, int seed, double size, double bias = 0, int from = 0) {
  std::string out;
  for (int i = 0; i < steps; ++i)
    out += fmt::format("{} {}\n", i,
                       2 + 7 * std::exp(-i / 100.0) + size * std::sin(i * 12.9898 * (seed + 1)) +
                           (i < from ? 0 : bias));
  return out;
}

TEST_F(Files, LossesThatAreEqualButForNoise) {
  const std::string a = put("a", losses(600, 1, 0.02)), other = put("o", losses(600, 2, 0.02)),
                    more = put("m", losses(600, 3, 0.02)), last = put("l", losses(600, 4, 0.02)),
                    bias = put("b", losses(600, 1, 0.02, 0.0025, 201)),
                    large = put("g", losses(600, 5, 0.02, 0.5, 201));
  EXPECT_EQ(run({"compare", "losses", a, other}).code, 0);
  const Result found = run({"compare", "losses", a, bias});
  EXPECT_EQ(found.code, 1);
  EXPECT_THAT(found.out, HasSubstr("\n  B is above A by 0.0025 +- "));
  EXPECT_THAT(found.out, HasSubstr(" from step 201 on: not noise\n"));
  EXPECT_THAT(found.out, HasSubstr("\n600 comparisons in 1 curve: 1 differs, 0 missing\n"));
  const std::vector<std::string> runs{"--noise", more, "--noise", last, "--noise", other};
  const auto beside = [&](const std::string& b) {
    std::vector<std::string> words{"compare", "losses", a, b};
    words.insert(words.end(), runs.begin(), runs.end());
    return run(words);
  };
  EXPECT_EQ(beside(bias).code, 0) << "less than runs of A differ by";
  const Result far = beside(large);
  EXPECT_EQ(far.code, 1);
  EXPECT_THAT(far.out, HasSubstr("from 4 runs of A"));
  EXPECT_THAT(far.out, HasSubstr("from step 201 on: not noise"));
  const auto json = nlohmann::json::parse(
      run({"compare", "losses", a, bias, "--format", "json", "--precision", "fp32"}).out);
  EXPECT_EQ(json["curves"][0]["noise"]["stretch"]["from"], 201);
  EXPECT_EQ(json["curves"][0]["precision"], "fp32");
  EXPECT_EQ(json["rule"]["mode"], "noise");
}

TEST_F(Files, LossesThatAreHardToRead) {
  const std::string a = put("a", losses(20, 1, 0.02));
  const std::string nan = "20 nan\n21 nan\n";
  const std::string gone = put("gone", losses(20, 1, 0.02) + nan);
  const Result both = run({"compare", "losses", gone, gone});
  EXPECT_EQ(both.code, 1);
  EXPECT_THAT(both.out, HasSubstr("neither curve is a number from step 20 on: both have diverged"));
  EXPECT_EQ(run({"compare", "losses", gone, gone, "--mode", "exact"}).code, 1);
  const Result one = run({"compare", "losses", put("long", losses(22, 1, 0.02)), gone});
  EXPECT_EQ(one.code, 1);
  EXPECT_THAT(one.out, HasSubstr("B is no number at step 20 (nan) where A is"));
  const Result resumed =
      run({"compare", "losses", a, put("resumed", "18 9\n19 9\n" + losses(20, 1, 0.02))});
  EXPECT_EQ(resumed.code, 0);
  EXPECT_THAT(resumed.out, HasSubstr("B: 'loss' has 2 steps more than once (18-19): the last of "
                                     "each counts\n"));
  EXPECT_THAT(
      run({"compare", "losses", put("falls", "2 1\n1 2\n"), put("rises", "1 2\n2 1\n")}).out,
      HasSubstr("A: 'loss' has steps that fall: they are sorted\n"));
  const Result apart = run({"compare", "losses", a, put("later", "100 1\n101 1\n")});
  EXPECT_EQ(apart.code, 4);
  EXPECT_EQ(apart.err, "error: nothing to compare: no step is in both curves\n");
  refused({"compare", "losses", a, put("twice", "step: 1 loss: 2 step: 2 loss: 1\n")},
          "line 1: has 'loss' twice");
  refused({"compare", "losses", a, put("none.log", "Traceback (most recent call last):\n")},
          "no column is named step");
  refused({"compare", "losses", a, put("none.bin", std::string("\x7f\0ELF", 5))},
          "is neither text nor");
  refused({"compare", "losses", a, put("none.gz", "\x1f\x8b half")}, "is cut short, or is no");
}

}  // namespace
}  // namespace tidemark
