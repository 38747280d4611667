// The commands on files as a user meets them: exit codes, one line a mistake, nothing overwritten.
#include "harness/cli/files.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "harness/cli/github.h"
#include "harness/cli/suggest.h"
#include "harness/cli/testing/files_command.h"
#include "harness/record/file.h"
#include "harness/record/json.h"
#include "reports/headline.h"
#include "reports/numbers/sample.h"
#include "reports/testing/sample.h"
#include "reports/write.h"

namespace tidemark {
namespace {

using testing::HasSubstr;

// holds: reports/README.md, Commands
TEST_F(Files, CompareTakesFoldersAndFiles) {
  const std::string base = folder_ / "base", worse = folder_ / "worse";
  Result same = run({"compare", base, base + "/report.json"});
  EXPECT_EQ(same.code, 0);
  EXPECT_THAT(same.out, HasSubstr("no difference"));
  EXPECT_EQ(same.err, "");
  Result comparison = run({"compare", base, worse});
  EXPECT_EQ(comparison.code, 1);
  EXPECT_THAT(comparison.out,
              HasSubstr("Regressions (1)\n  fsdp_prefetch/smoke/r2/math/instant stash "
                        "rank 0: memory/active/forward: 5,242,880 -> 5,243,392 bytes"));
  EXPECT_EQ(run({"compare", base, worse}).out, comparison.out);
  EXPECT_EQ(run({"compare", "--threshold", "memory=512", "time=5%", base, worse}).code, 0);
  EXPECT_EQ(run({"compare", base, worse, "--threshold", "memory=512", "time=5%"}).code, 0);
  EXPECT_EQ(run({"compare", base, worse, "--threshold=memory=511"}).code, 1);
}

TEST_F(Files, CompareSaysWhatIsWrongInOneLine) {
  const std::string good = folder_ / "base", text = json_text(small_report());
  const auto file = [&](const std::string& name, std::string content) {
    write(folder_ / name, content);
    return folder_ / name;
  };
  const auto with = [&](std::string_view part, std::string_view instead) {
    const size_t at = text.find(part);
    EXPECT_NE(at, std::string::npos) << part;
    return at == std::string::npos ? text : std::string(text).replace(at, part.size(), instead);
  };
  const std::string version = kSchemaVersion;
  const std::string next = fmt::format("{}.0", std::stoi(version) + 1);
  const std::string newer = with('"' + version + '"', '"' + next + '"');
  const std::string nan = with("\"value\": 0.1", "\"value\": NaN");
  const std::string edited = with("\"status\": \"fail\"", "\"status\": \"pass\"");
  const std::string outside = with("\"measured\": 5242880", "\"measured\": 5242879");
  refused({"compare", good, file("outside", outside)}, "outside what was expected");
  refused({"compare", good, file("newer", newer)}, "schema version " + next);
  refused({"compare", good, file("cut", text.substr(0, text.size() / 2))}, "cut off");
  refused({"compare", good, file("nan", nan)}, "not JSON at byte");
  refused({"compare", good, file("edited", edited)}, "the file was edited");
  refused({"compare", file("empty", ""), good}, "cut off");
  refused({"compare", good, file("deep", std::string(200000, '['))}, "nested more than 1,000 deep");
  refused({"compare", good, folder_ / "nosuch"}, "cannot be read");
  refused({"compare", good, folder_.path()}, "cannot be read");
  refused({"compare", good}, "needs two reports");
  refused({"compare", good, good, good}, "needs two reports");
  refused({"compare", good, good, "--threshold", "memroy=0"}, "'memroy' is not a kind");
  refused({"compare", good, good, "--format", "xml"}, "xml");
  refused({"compare", good, good, "--frobnicate"}, "--frobnicate");
}

TEST_F(Files, ReportRendersAgainAndSaysHowTheRunCameOut) {
  for (const std::string& path : {folder_ / "base", folder_ / "base/report.json"}) {
    const Result result = run({"report", path});
    EXPECT_EQ(result.code, 0) << result.err;
    EXPECT_EQ(result.out, (folder_ / "base/report.html") + "\n" + headline(small_report()) + "\n");
  }
  refused({"report", folder_ / "base/junit.xml"}, "neither a run's folder nor its report.json");
}

TEST_F(Files, ReportPrintsTheSchemaWithoutARun) {
  const Result result = run({"report", "--schema"});
  EXPECT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(nlohmann::ordered_json::parse(result.out), report_schema());
  refused({"report"}, "dir is required");
}

/// All commands below `app`, and its subcommands' own.
std::vector<CLI::App*> commands_of(CLI::App& app) {
  std::vector<CLI::App*> all;
  for (CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    all.push_back(command);
    std::ranges::copy(commands_of(*command), std::back_inserter(all));
  }
  return all;
}

TEST_F(Files, TheHelpOfACommandHasItsOwnExitCodes) {
  CLI::App app("", "tidemark");
  Act act;
  add_file_commands(app, act);
  const auto all = commands_of(app);
  EXPECT_EQ(all.size(), 13u);
  for (const CLI::App* command : all) {
    if (command->get_name() != "gpu")  // has commands alone
      EXPECT_THAT(command->help(), HasSubstr("exit codes: 0")) << command->get_name();
    if (command->get_name() != "judge")
      EXPECT_THAT(command->help(), testing::Not(HasSubstr("verdict"))) << command->get_name();
  }
}

TEST_F(Files, AMisspeltWordIsAnsweredWithTheNearest) {
  CLI::App app("", "tidemark");
  Act act;
  add_file_commands(app, act);
  using Words = std::vector<std::string>;
  EXPECT_EQ(suggestion(app, Words{"comapre", "a"}), "did you mean compare?");
  EXPECT_EQ(suggestion(app, Words{"compare", "a", "b", "--treshold", "memory=0"}),
            "did you mean --threshold?");
  EXPECT_EQ(suggestion(app, Words{"history", "--metrics=x"}), "did you mean --metric?");
  EXPECT_EQ(suggestion(app, Words{"snapshot", "shwo", "x"}), "did you mean show?");
  EXPECT_EQ(
      suggestion(app, Words{"snapshot", "diff", "a", "b"}),
      "'diff' is no command of snapshot, which has show, convert; tidemark compare A B compares "
      "two snapshots");
  EXPECT_EQ(suggestion(app, Words{"snapshot", "play"}),
            "'play' is no command of snapshot, which has show, convert");
  EXPECT_EQ(suggestion(app, Words{"compare", "--frobnicate"}), "");
  EXPECT_EQ(suggestion(app, Words{"x"}), "");
  EXPECT_EQ(nearest("sched", {"size", "schedule"}), "schedule");
}

TEST_F(Files, NothingInCommonIsExitFour) {
  Report other = small_report();
  for (auto& trial : other.trials) trial.scenario = "another";
  write_all(folder_ / "other", other);
  Result result = run({"compare", folder_ / "base", folder_ / "other"});
  EXPECT_EQ(result.code, 4);
  EXPECT_THAT(result.err, HasSubstr("error: nothing to compare"));
  EXPECT_THAT(result.out, HasSubstr("0 comparisons"));
}

TEST_F(Files, OutNeverReplacesUnasked) {
  const std::string base = folder_ / "base", worse = folder_ / "worse", out = folder_ / "c.html";
  Result first = run({"compare", base, worse, "--format", "html", "--out", out});
  EXPECT_EQ(first.code, 1);
  EXPECT_THAT(first.out, HasSubstr("1 regression"));
  const std::string written = read_bytes(out);
  EXPECT_THAT(written, HasSubstr("</html>"));
  refused({"compare", base, base, "--out", out}, "exists already");
  refused({"compare", base, base, "--out", folder_.path()}, "is a folder");
  EXPECT_EQ(read_bytes(out), written);
  refused({"compare", base, folder_ / "nosuch", "--force", "--out", out}, "cannot be read");
  EXPECT_EQ(read_bytes(out), written);
  EXPECT_EQ(run({"compare", base, base, "--force", "--out", out}).code, 0);
  EXPECT_NE(read_bytes(out), written);
  EXPECT_FALSE(std::filesystem::exists(out + ".partial"));
}

TEST_F(Files, TwoSnapshots) {
  const auto snapshot = [&](const std::string& name, int bytes) {
    write_files(folder_ / name,
                {{"s.json",
                  fmt::format(R"({{"segments": [{{"address": 0, "total_size": 2097152, "stream": 0,
        "segment_type": "small", "blocks": [{{"size": {0}, "requested_size": {0}, "state": "active_allocated"}},
        {{"size": {1}, "state": "inactive"}}]}}], "device_traces": []}})",
                              bytes, 2097152 - bytes)}});
    return folder_ / name + "/s.json";
  };
  const std::string a = snapshot("a", 1024), b = snapshot("b", 4096);
  const Result same = run({"compare", a, a}), grown = run({"compare", a, b});
  EXPECT_EQ(same.code, 0) << same.err;
  EXPECT_THAT(same.out, HasSubstr("no difference"));
  EXPECT_EQ(grown.code, 1) << grown.err;
  EXPECT_THAT(grown.out, HasSubstr("1,024 -> 4,096 bytes (+3,072)"));
  EXPECT_EQ(run({"compare", b, a}).code, 0) << "less is no regression";
  EXPECT_EQ(run({"compare", a, b, "--threshold", "memory=3KiB"}).code, 0);
  EXPECT_EQ(run({"compare", a, b, "--threshold", "memory=2KiB"}).code, 1);
  EXPECT_THAT(run({"compare", a, b, "--format", "json"}).out,
              HasSubstr("\"schema\": \"tidemark/snapshot-difference\""));
  refused({"compare", a, b, "--format", "html"}, "as text or json");
  refused({"compare", a, folder_ / "base"}, "is not a memory snapshot, and the other file is one");
}

TEST_F(Files, NumbersOfTwoRuns) {
  const auto folder = [&](const std::string& name, const NumbersLog& log) {
    write_files(folder_ / name, {{"numbers/x/keep_rank0.safetensors", numbers_file(log)}});
    return folder_ / name;
  };
  NumbersLog log = numbers_sample();
  const std::string first = folder("first", log);
  log.loss[1] *= 1 + 1e-7;
  const std::string other = folder("other", log);
  log.arithmetic = "by a GPU's kernels";
  const std::string gpu = folder("gpu", log);
  log.params = "n=8 steps=3 seed=0";
  const std::string alone = folder("alone", log);
  EXPECT_EQ(run({"compare", "--numbers", first, first}).code, 0);
  const Result within = run({"compare", first, gpu, "--numbers"});
  EXPECT_EQ(within.code, 0);
  EXPECT_THAT(within.out, HasSubstr("keep: within the model on 1 rank: worst loss on rank 0: "));
  const Result differs = run({"compare", "--numbers", first, other});
  EXPECT_EQ(differs.code, 1);
  EXPECT_THAT(differs.out,
              HasSubstr("rank 0, loss: 1 of its numbers differ; furthest at step 1: "));
  const Result nothing = run({"compare", "--numbers", first, alone});
  EXPECT_EQ(nothing.code, 4);
  EXPECT_THAT(nothing.err, HasSubstr("error: nothing to compare: no numbers are in both " + first));
  const std::string out = folder_ / "numbers.txt";
  EXPECT_EQ(run({"compare", "--numbers", first, gpu, "--out", out}).out,
            "0 variants with the same bits, 1 within the model, 0 different, 0 skipped, 0 in one "
            "alone\n\n" +
                out + "\n");
  EXPECT_EQ(read_bytes(out), within.out);
  refused({"compare", "--numbers", first, folder_ / "base"}, "has no numbers");
  refused({"compare", "--numbers", first, first, "--format", "json"},
          "leave out --threshold and --format");
  refused({"compare", "--numbers", "--events", first, first}, "give one of them");
  write(gpu + "/numbers/x/keep_rank0.safetensors", "half");
  refused({"compare", "--numbers", first, gpu}, "keep_rank0.safetensors: is cut off");
}

TEST_F(Files, HistoryOfRuns) {
  for (int n : {1, 2, 3}) {
    Report report = small_report();
    report.run.id = "run-" + std::to_string(n);
    report.run.started = "2026-01-0" + std::to_string(n) + "T00:00:00Z";
    if (n == 3)
      report.trials[0].variants[1].ranks[0].steps[0].phases[0][Statistic::active].peak *= 2;
    remember(folder_ / report.run.id, report);
  }
  const std::string here = folder_.path();
  const Result text = run({"history", here});
  EXPECT_EQ(text.code, 0);
  EXPECT_THAT(text.out, HasSubstr("instant stash memory/active/forward: 5,242,880 (2 runs) -> "
                                  "10,485,760 (1 run, since run-3"));
  EXPECT_THAT(run({"history", here, "--metric", "loss"}).out, HasSubstr("stash loss: "));
  EXPECT_THAT(run({"history", here, "--since", "2026-01-02"}).out, HasSubstr("2 runs,"));
  EXPECT_EQ(run({"history", here, "--metric", "nosuch"}).code, 4);
  EXPECT_EQ(run({"history", here, "--since", "2030-01-01"}).code, 4);
  EXPECT_EQ(run({"history", here, "--last-good"}).code, 4);
  refused({"history", folder_ / "nosuch"}, "has no history");
  refused({"history", here, "--since", "monday"}, "neither a date");
  refused({"history", here, "--prune"}, "needs what to keep");
  EXPECT_EQ(run({"history", here, "--prune", "--since", "2026-01-02"}).out.substr(0, 5), "1 run");
  EXPECT_EQ(run({"history", here, "--prune", "1"}).out.substr(0, 5), "1 run");
}

TEST_F(Files, AHistoryThatCannotBeWrittenIsAWarning) {
  write(folder_ / "history.sqlite", std::string(5000, 'x'));
  testing::internal::CaptureStderr();
  remember(folder_ / "base", small_report());
  const std::string warning = testing::internal::GetCapturedStderr();
  EXPECT_THAT(warning, HasSubstr("warning: this run is not in the history: "));
  EXPECT_EQ(std::ranges::count(warning, '\n'), 1);
}

TEST_F(Files, OnGithubRegressionsAreAnnotations) {
  const std::string base = folder_ / "base", worse = folder_ / "worse",
                    summary = folder_ / "summary";
  write(summary, "before\n");
  EXPECT_EQ(run({"compare", base, worse}).out.find("::error"), std::string::npos);
  setenv("GITHUB_ACTIONS", "true", 1);
  setenv("GITHUB_STEP_SUMMARY", summary.c_str(), 1);
  const Result comparison = run({"compare", base, worse});
  testing::internal::CaptureStdout();
  tell_github(small_report());
  const std::string of_run = testing::internal::GetCapturedStdout();
  setenv("GITHUB_STEP_SUMMARY", "/proc/nothing", 1);
  const Result unwritable = run({"compare", base, worse});
  unsetenv("GITHUB_ACTIONS");
  unsetenv("GITHUB_STEP_SUMMARY");
  EXPECT_THAT(comparison.out,
              HasSubstr("\n::error title=memory/active/forward regressed::fsdp_prefetch/"));
  EXPECT_THAT(of_run, HasSubstr("::error title=memory/form/active/forward failed::"));
  EXPECT_THAT(read_bytes(summary), testing::StartsWith("before\n# tidemark compare: 1 regression"));
  EXPECT_THAT(read_bytes(summary), HasSubstr("# tidemark: 1 of 6 verdicts failed"));
  EXPECT_EQ(unwritable.code, 1);
  EXPECT_THAT(unwritable.err, HasSubstr("warning: GITHUB_STEP_SUMMARY"));
  EXPECT_EQ(annotation_line({"a:b,c%", "x\n::error::y 50%"}),
            "::error title=a%3Ab%2Cc%25::x ::error::y 50%25\n");
}

}  // namespace
}  // namespace tidemark
