// Runs of the command in which not everything runs or passes: skipped trials, faults,
// interruptions, and what is said of them.
#include <nlohmann/json.hpp>

#include "harness/cli/command_fixture.h"
#include "harness/record/json.h"

namespace tidemark {
namespace {

TEST_F(Command, AFaultThatDidNotHappenIsAFailure) {
  const std::string what =
      "run fsdp_prefetch/stash --size smoke --mode shapes --schedule instant --ranks 2 --out ";
  auto result = run(what + "a", "TIDEMARK_FAULT='rank=1 call=all_gather nth=300000 do=kill'");
  EXPECT_EQ(result.code, 1) << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("FAIL the fault 'rank=1 call=all_gather nth=300000 do=kill' did "
                        "not happen: rank 1 made "));
  EXPECT_THAT(result.out, ::testing::EndsWith("\n1 planned fault did not happen\n"));
  EXPECT_FALSE(fs::exists(folder_ / "history.sqlite")) << "a run under faults is in the history";
  for (const auto& [fault, says] : {std::pair{"rank=2 do=kill", "there is no rank 2: 2 ranks run"},
                                    {"call=all_gathr do=kill", "there is no call 'all_gathr'"}}) {
    auto wrong = run(what + "b", std::string("TIDEMARK_FAULT='") + fault + "'");
    EXPECT_EQ(wrong.code, 2) << fault;
    EXPECT_THAT(wrong.err, HasSubstr(says));
    EXPECT_EQ(lines(wrong.err), 1u) << wrong.err;
  }
}

TEST_F(Command, ASkippedTrialIsAFailureWhereAllAreRequired) {
  const std::string what =
      "run 'fsdp_prefetch/stash/smoke' 'tp_buffer_reuse/recompute/smoke' --mode shapes --schedule "
      "instant --ranks 3 --steps 2 --out ";  // eight heads do not divide among three ranks
  auto result = run(what + "a");
  EXPECT_EQ(result.code, 0) << result.out << result.err;
  EXPECT_THAT(result.out,
              HasSubstr("\nskipped: tp_buffer_reuse/smoke (1 trial): heads=8 does not"));
  EXPECT_THAT(result.out, HasSubstr("1 of 2 trials finished, 1 skipped; "));
  EXPECT_FALSE(fs::exists(fs::symlink_status(folder_ / "latest-good"))) << "not all of it ran";
  auto required = run(what + "b --require-all");
  EXPECT_EQ(required.code, 1);
  EXPECT_THAT(required.out, ::testing::EndsWith("\n1 of 2 trials skipped, and all are required\n"));
}

TEST_F(Command, ADryRunSaysWhatWouldBeSkippedAndHowLongItTakes) {
  const std::string what =
      "run 'fsdp_prefetch/stash/smoke' 'tp_buffer_reuse/recompute/smoke' --mode shapes --schedule "
      "instant --ranks 3 --steps 2 ";
  auto before = run(what + "--dry-run");
  EXPECT_EQ(before.code, 0) << before.err;
  EXPECT_THAT(before.out, HasSubstr("SKIPPED: heads=8 does not divide among 3 ranks"));
  EXPECT_THAT(before.out,
              HasSubstr("1 of 2 trials would run, 1 would be skipped. How long is unknown"));
  ASSERT_EQ(run(what).code, 0);
  const fs::path latest = folder_ / "tidemark-out" / "latest";
  const auto report = nlohmann::json::parse(read(latest / "report.json"));
  EXPECT_EQ(fs::read_symlink(latest), report["run"]["id"].get<std::string>());
  EXPECT_THAT(run(what + "--dry-run").out, HasSubstr("would be skipped. About "));
}

// Sizes follow the ranks.
TEST_F(Command, TheScaleSizeFitsAnyPowerOfTwoUpTo64) {
  for (const std::string ranks : {"1", "2", "4", "8", "16", "32", "64"}) {
    auto result = run("run --size scale --stand-for 0 --dry-run --ranks " + ranks);
    EXPECT_EQ(result.code, 0) << ranks << result.err;
    EXPECT_THAT(result.out, HasSubstr("\n15 of 15 trials would run, 0 would be skipped.")) << ranks;
  }
}

TEST_F(Command, ACapacityIsTakenInUnits) {
  const std::string what = "run fsdp_prefetch/stash --size smoke --mode shapes --schedule instant ";
  auto result = run(what + "--ranks 1 --capacity 6GiB --out a", "TIDEMARK_CAPACITY=5GiB");
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  auto report = nlohmann::json::parse(read(folder_ / "a" / "report.json"));
  EXPECT_EQ(report["trials"][0]["capacity_bytes"], 6ll << 30);
  EXPECT_EQ(report["run"]["env"]["TIDEMARK_CAPACITY"], std::to_string(6ll << 30));
}

TEST_F(Command, AnInterruptedRunReportsWhatIsDone) {
  pid_t pid = start("run fsdp_prefetch/stash --size smoke --mode math --ranks 2 --out a",
                    "TIDEMARK_FAULT='rank=1 nth=30 do=hang'");
  until_it_runs();
  kill(pid, SIGINT);
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_EQ(WEXITSTATUS(status), 130);
  EXPECT_THAT(read(folder_ / "err"), HasSubstr("without a result: interrupted"));
  EXPECT_THAT(read(folder_ / "out"), HasSubstr("\nIncomplete: 0 of "));
  EXPECT_EQ(fs::read_symlink(folder_ / "latest"), "a");
  EXPECT_FALSE(fs::exists(fs::symlink_status(folder_ / "latest-good")));
  EXPECT_THAT(read(folder_ / "a" / "report.json"),
              HasSubstr("the ranks ended early (interrupted)"));
}

bool runs_in(const fs::path& folder) {
  return std::ranges::any_of(fs::directory_iterator("/proc"), [&](const auto& process) {
    return std::isdigit(process.path().filename().string()[0]) != 0 &&
           read(process.path() / "environ").find("TIDEMARK_OUT=" + folder.string()) !=
               std::string::npos;
  });
}

// A terminal that is closed sends SIGHUP, and SIGKILL leaves the launching process no time.
TEST_F(Command, ATerminatedRunLeavesNoProcess) {
  for (const int signal : {SIGTERM, SIGHUP, SIGQUIT, SIGKILL}) {
    const std::string out = std::to_string(signal);
    fs::remove(folder_ / "err");
    pid_t pid = start("run fsdp_prefetch/stash --size smoke --mode math --ranks 2 --out " + out,
                      "TIDEMARK_FAULT='rank=1 nth=30 do=hang'");
    until_it_runs();
    EXPECT_TRUE(runs_in(folder_ / out));
    kill(pid, signal);
    const auto begin = Clock::now();
    const auto seconds = [&] {
      return std::chrono::duration<double>(Clock::now() - begin).count();
    };
    int status = 0;
    waitpid(pid, &status, 0);
    EXPECT_FALSE(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    EXPECT_EQ(WIFEXITED(status) && WEXITSTATUS(status) == 130, signal != SIGKILL);
    while (signal == SIGKILL && runs_in(folder_ / out) && seconds() < 20)
      std::this_thread::sleep_for(std::chrono::milliseconds(100));
    EXPECT_LT(seconds(), 20) << signal;
    EXPECT_FALSE(runs_in(folder_ / out)) << "a process is still there after signal " << signal;
  }
}

// What one rank's fault does to the others is fault_test.py's and oom_test.py's; here its plan.
TEST_F(Command, AnInvalidFaultIsRefused) {
  auto wrong = run("run fsdp_prefetch --ranks 2 --out wrong", "TIDEMARK_FAULT='rank=1 do=nosuch'");
  EXPECT_EQ(wrong.code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("do must say what happens"));
  EXPECT_EQ(lines(wrong.err), 1u);
}

TEST_F(Command, ARankThatThrowsEndsTheRunOnAllRanks) {
  auto result =
      run("run fsdp_prefetch --ranks 3 --mode shapes --schedule instant --size seed --capacity "
          "1000000000 --out a");
  EXPECT_EQ(result.code, 3) << result.out << result.err;
  EXPECT_THAT(result.out, HasSubstr("out of memory: asked"));
  EXPECT_LT(result.seconds, 30);
  auto report = to_json(read_report(folder_ / "a"));
  EXPECT_GT(report["trials"][0]["variants"].size(), 5u);
  for (const auto& variant : report["trials"][0]["variants"])
    EXPECT_THAT(variant["error"].get<std::string>(), HasSubstr("CUDA out of memory"));
}

// Who has no communicator yet cannot be told through it.
TEST_F(Command, ARankThatFailsBeforeTheCommunicatorExistsBlocksNoOtherRank) {
  for (const char* rank : {"0", "2"}) {
    const std::string out = std::string("unmade-") + rank;
    auto result =
        run("run fsdp_prefetch/stash --size smoke --mode shapes --schedule instant "
            "--ranks 3 --out " +
                out,
            std::string("TIDEMARK_FAULT='do=throw call=communicator rank=") + rank + "'");
    EXPECT_EQ(result.code, 3) << result.err;
    EXPECT_LT(result.seconds, 30);
    auto report = to_json(read_report(folder_ / out));
    const auto& variants = report["trials"][0]["variants"];
    EXPECT_THAT(variants[0]["error"].get<std::string>(),
                StartsWith(std::string("rank ") + rank + ": injected fault in communicator 1"));
    ASSERT_EQ(variants.size(), 2u);
    EXPECT_EQ(variants[1]["ranks"].size(), 3u) << "the other variant did not run";
  }
}

}  // namespace
}  // namespace tidemark
