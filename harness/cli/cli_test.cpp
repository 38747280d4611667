// The command as a user meets it: exit codes, one line a mistake, the output folder, two runs byte
// for byte, and no hang.
#include <nlohmann/json.hpp>

#include "harness/cli/command_fixture.h"
#include "harness/record/json.h"

namespace tidemark {
namespace {

TEST_F(Command, AloneItPrintsHelp) {
  auto result = run("");
  EXPECT_EQ(result.code, 0);
  EXPECT_THAT(result.out, HasSubstr("exit codes of run: 0 all verdicts pass"));
  EXPECT_EQ(result.err, "");
}

TEST_F(Command, ListsWhatThereIs) {
  auto result = run("list --json");
  ASSERT_EQ(result.code, 0) << result.err;
  auto all = nlohmann::json::parse(result.out);
  ASSERT_FALSE(all.empty());
  for (const auto& scenario : all) {
    EXPECT_FALSE(scenario["variants"].empty());
    EXPECT_FALSE(scenario["sizes"].empty());
    std::vector<std::string> roles;
    for (const auto& variant : scenario["variants"]) roles.push_back(variant["role"]);
    EXPECT_THAT(roles, ::testing::IsSupersetOf({"baseline", "fixed"}));
  }
  EXPECT_THAT(run("list").out, HasSubstr(all[0]["name"].get<std::string>()));
}

TEST_F(Command, TheReadmesTableIsTheCodes) {
  auto result = run("list --markdown");
  ASSERT_EQ(result.code, 0);
  EXPECT_GT(lines(result.out), 2u);
  EXPECT_THAT(read(TIDEMARK_SOURCE "/README.md"), HasSubstr(result.out));
}

TEST_F(Command, AMistakeIsOneLineAndItsCode) {
  struct Case {
    const char* arguments;
    int code;
    const char* says;
  };
  std::ofstream(folder_ / "file") << "x";
  fs::create_directories(folder_ / "full");
  std::ofstream(folder_ / "full" / "x") << "x";
  for (const auto& each : {
           Case{"frobnicate", 2, "frobnicate"},
           Case{"runn", 2, "did you mean run?"},
           Case{"run --rank 4", 2, "did you mean --ranks?"},
           Case{"run --frobnicate", 2, "--frobnicate"},
           Case{"run nosuch", 2, "unknown scenario 'nosuch' (there are: "},
           Case{"run 'nosuch*'", 4, "nothing matches"},
           Case{"run fsdp_prefetch/nosuch", 2, "unknown variant 'nosuch' of fsdp_prefetch"},
           Case{"compare nosuch file", 2, "cannot be read"},
           Case{"compare losses nosuch file", 2, "cannot be read"},
           Case{"history nosuch", 2, "has no history"},
           Case{"snapshot show file", 2, "is neither a pickle"},
           Case{"run --size nosuch", 2, "unknown size 'nosuch'"},
           Case{"run --suite nosuch", 2, "smoke, nightly, scale"},
           Case{"run --mode nosuch", 2, "math, shapes"},
           Case{"run --schedule nosuch", 2, "instant, calibrated, lagging, random, all"},
           Case{"run --set nosuch=1", 2, "no parameter 'nosuch'"},
           Case{"run --set layers=0", 2, "layers must be from"},
           Case{"run --set layers=two", 2, "not a whole number"},
           Case{"run --ranks 0x", 2, "--ranks"},
           Case{"run --ranks 2000", 2, "from 1 to 1024"},
           Case{"run --steps 1", 2, "--steps 1"},
           Case{"run --gpu nosuch", 2, "there are: a100-40g"},
           Case{"run --capacity lots", 2, "--capacity lots"},
           Case{"run fsdp_prefetch --mode math --set hidden=2", 2, "a norm of so few elements"},
           Case{"run ddp_bucket_view --mode math --set hidden=1", 2, "a norm of so few elements"},
           Case{"run zero_bubble_detach --size smoke --mode math --set sequence=1", 2,
                "sequence=1: a token that attends to itself alone"},
           Case{"run fsdp_prefetch --out ''", 2, "--out: is empty; name a folder"},
           Case{"run --alloc-conf nosuch:1", 2, "--alloc-conf nosuch:1: Unrecognized key"},
           Case{"run --device quantum", 2, "auto, virtual, cuda"},
           Case{"run --timeout 0", 2, "--timeout"},
           Case{"run --out file", 2, "is not a folder"},
           Case{"run --out full", 2, "never overwrites"},
           Case{"run --out /proc/nosuch", 2, "cannot be made"},
           Case{"report nosuch", 2, "nosuch"},
       }) {
    auto result = run(each.arguments);
    EXPECT_EQ(result.code, each.code) << each.arguments << "\n" << result.err;
    EXPECT_THAT(result.err, HasSubstr(each.says)) << each.arguments;
    EXPECT_EQ(lines(result.err), 1u) << each.arguments << "\n" << result.err;
    EXPECT_EQ(result.out, "") << each.arguments;
  }
  const auto placed = run("run fsdp_prefetch/stash", "TIDEMARK_PLACEMENT=up");
  EXPECT_EQ(placed.code, 2);
  EXPECT_EQ(placed.err, "error: TIDEMARK_PLACEMENT=up: expected linux, wsl2 or ascending\n");
  EXPECT_FALSE(fs::exists(folder_ / "tidemark-out")) << "a mistake left a folder";
}

TEST_F(Command, TheHelpOfACommandIsItsOwn) {
  auto bench = run("bench --help");
  EXPECT_EQ(bench.code, 0) << bench.err;
  EXPECT_THAT(bench.out, HasSubstr("usage: tidemark bench"));
  auto exec = run("exec --help");
  EXPECT_EQ(exec.code, 0) << exec.err;
  EXPECT_THAT(exec.out, HasSubstr("exit codes: that of PROGRAM"));
  EXPECT_THAT(run("run --help").out, HasSubstr("1 a verdict failed"));
  for (const std::string command : {"list", "gpu rates", "exec", "bench", "history"})
    EXPECT_THAT(run(command + " --help").out, ::testing::Not(HasSubstr("a verdict failed")))
        << command;
}

TEST_F(Command, WhatCannotBePrintedIsNoSuccess) {
  for (const std::string what : {"list", "list --json", "--version"}) {
    auto result = run(what + " >/dev/full 2>err </dev/null #");
    EXPECT_EQ(result.code, 3) << what;
    EXPECT_THAT(result.err, HasSubstr("No space left on device")) << what;
    EXPECT_EQ(lines(result.err), 1u) << result.err;
  }
}

TEST_F(Command, WithoutADriverCudaIsSkipped) {
  if (access("/dev/nvidiactl", F_OK) == 0) GTEST_SKIP() << "this machine has a driver";
  auto result = run("run --device cuda");
  EXPECT_EQ(result.code, 77);
  EXPECT_EQ(lines(result.err), 1u);
}

TEST_F(Command, TwoRunsLeaveTheSameBytes) {
  const std::string what = "run fsdp_prefetch/stash --ranks 2 --out ";
  auto first = run(what + "a"), second = run(what + "b", "setarch -R");
  ASSERT_EQ(first.code, 0) << first.out << first.err;
  ASSERT_EQ(second.code, 0) << second.out << second.err;
  auto load = [&](const char* name) {
    return nlohmann::ordered_json::parse(read(folder_ / name / "report.json"));
  };
  auto a = load("a"), b = load("b");
  EXPECT_NE(a["run"]["id"], b["run"]["id"]);
  a.erase("run");
  b.erase("run");
  EXPECT_TRUE(a.dump() == b.dump()) << "the reports differ outside `run`";
  EXPECT_GT(a["summary"]["passed"], 0);
  for (const char* name : {"report.html", "junit.xml", "summary.md", "benchmark.json"})
    EXPECT_GT(fs::file_size(folder_ / "a" / name), 100u) << name;
  EXPECT_EQ(fs::read_symlink(folder_ / "latest"), "b");
  EXPECT_THAT(first.out,
              ::testing::MatchesRegex("(.|\n)*\n[0-9]+ trials finished; [0-9,]+ verdicts passed, 0 "
                                      "failed, [0-9]+ skipped\n(All [0-9,]+ verdicts passed\n)?"));
  EXPECT_EQ(fs::read_symlink(folder_ / "latest-good"), "b");
}

TEST_F(Command, RepetitionsLeaveTheSameRecord) {
  auto result =
      run("run fsdp_prefetch/stash --size smoke --ranks 2 --repetitions 3 --out a --mode math");
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  int repetitions = 0;
  for (const TrialRecord& trial : read_report(folder_ / "a").trials)
    for (const Verdict& verdict : trial.verdicts)
      repetitions += verdict.name == "parity/repetition";
  EXPECT_EQ(repetitions, 2 * 3);  // two comparisons in each of three schedules
}

// Freed blocks wait for several streams there. The allocator polls them in an order that follows
// from their numbers, and autograd's thread polls before it enqueues anything.
TEST_F(Command, RepetitionsPollTheSameEvents) {
  for (const std::string trial :
       {"frozen_reshard/multi_grad_hook --ranks 2 --set layout=flat --set no_sync=none "
        "--schedule lagging",
        "fsdp_prefetch/record_stream --ranks 64 --set layers=17 --set hidden=3333 --set batch=64 "
        "--set precision=mixed --set reshard_after_forward=no --schedule calibrated"}) {
    fs::remove_all(folder_ / "a");
    auto result =
        run("run " + trial +
            " --size smoke --mode shapes --steps 2 --stand-for 0 --repetitions 4 --out a");
    EXPECT_EQ(result.code, 0) << result.out << result.err;
  }
}

// The model of the allocator has its default settings: of others requested bytes alone are claimed.
TEST_F(Command, SettingsOfTheAllocatorLeaveRequestedBytes) {
  for (const std::string settings :
       {"max_split_size_mb:21", "expandable_segments:True", "roundup_power2_divisions:4",
        "large_segment_size_mb:30",
        "per_process_memory_fraction:0.9,garbage_collection_threshold:0.1"}) {
    auto result =
        run("run ddp_bucket_view tp_buffer_reuse/no_recompute --size seed --ranks 2 "
            "--stand-for 1 --steps 2 --schedule lagging --set layers=2 --races off "
            "--details none --capacity 80GB --alloc-conf " +
            settings + " --out " + settings);
    EXPECT_EQ(result.code, 0) << result.out << result.err;
    int skipped = 0, requested = 0;
    for (const TrialRecord& trial : read_report(folder_ / settings).trials)
      for (const Verdict& verdict : trial.verdicts) {
        skipped += verdict.name == "memory/settings" &&
                   verdict.why.find("PYTORCH_ALLOC_CONF=" + settings) == 0;
        requested += verdict.name.starts_with("memory/form/requested/");
        EXPECT_FALSE(verdict.name.starts_with("memory/replay/reserved/")) << settings;
      }
    EXPECT_EQ(skipped, 3 + 1) << settings;
    EXPECT_GT(requested, 20) << settings;
  }
  // What changes nothing of that leaves all verdicts.
  auto inert =
      run("run ddp_bucket_view --size smoke --stand-for 0 --ranks 2 --schedule instant "
          "--alloc-conf garbage_collection_threshold:0.5 --out inert");
  EXPECT_EQ(inert.code, 0) << inert.out << inert.err;
  EXPECT_THAT(read(folder_ / "inert" / "junit.xml"), HasSubstr("memory/replay/reserved/"));
  EXPECT_THAT(read(folder_ / "inert" / "junit.xml"), Not(HasSubstr("memory/settings")));
}

TEST_F(Command, WrongSettingsOfTheAllocatorAreOneLine) {
  for (const std::string settings :
       {"nonsense", "max_split_size_mb:x", "max_split_size_mb:5", "backend:cudaMallocAsync", ",",
        "pinned_use_background_threads:True"})
    for (const std::string twin : {"PYTORCH_ALLOC_CONF", "PYTORCH_CUDA_ALLOC_CONF", ""}) {
      const std::string flag = twin.empty() ? " --alloc-conf " + settings : "";
      auto result = run("run ddp_bucket_view --size smoke --ranks 1" + flag,
                        twin.empty() ? "" : twin + "=" + settings);
      EXPECT_EQ(result.code, 2) << settings << twin << result.err;
      EXPECT_EQ(result.err.find("error: --alloc-conf " + settings), 0u) << twin << result.err;
      EXPECT_EQ(std::ranges::count(result.err, '\n'), 1) << result.err;
      EXPECT_THAT(result.err, Not(HasSubstr("report a bug")));
    }
}

TEST_F(Command, ATemporaryFolderThatIsNotThereIsOneLine) {
  const std::string nowhere = (folder_ / "nosuch").string();
  auto result = run("run ddp_bucket_view --size smoke --ranks 1 --out a", "TMPDIR=" + nowhere);
  EXPECT_EQ(result.code, 3);
  EXPECT_THAT(result.err,
              HasSubstr("error: no folder for this run can be made in " + nowhere + ": "));
  EXPECT_EQ(lines(result.err), 2u) << result.err;  // after the note that names the device
}

// One process runs them all, one after the other: none may depend on what ran before.
TEST_F(Command, EveryScenarioPassesBesideTheOthers) {
  auto result =
      run("run 'fsdp_prefetch/*/smoke' 'tp_buffer_reuse/*/losses' 'frozen_reshard/*/losses' "
          "'zero_bubble_detach/*/losses' --steps 2 --mode math --schedule instant --races off "
          "--details none --ranks 4 --timeout 60 --out a");
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  auto report = to_json(read_report(folder_ / "a"));
  for (const auto& trial : report["trials"]) {
    for (const auto& variant : trial["variants"]) {
      if (variant["role"] == "control") continue;  // some end in the failure that catches them
      EXPECT_EQ(variant["ranks"].size(), 4u) << trial["scenario"] << " " << variant["name"];
    }
  }
  EXPECT_GE(report["trials"].size(), 4u);
}

// Under another mpirun the ranks make the settings that the launching process would make.
TEST_F(Command, UnderAnotherLauncherTheFlagsCountToo) {
  const std::string two = "--oversubscribe -n 2 " TIDEMARK_BINARY " ";
  auto mpirun = [&](const std::string& arguments) {
    const std::string line =
        "cd " + folder_.string() + " && exec mpirun " + two + arguments + " >out 2>err </dev/null";
    const int status = std::system(line.c_str());
    return Result{WEXITSTATUS(status), read(folder_ / "out"), read(folder_ / "err"), 0};
  };
  auto result = mpirun(
      "run fsdp_prefetch/stash --size smoke --schedule instant --alloc-conf "
      "expandable_segments:True --capacity 5000000000 --gpu a100-40g --timeout 60 --out a");
  ASSERT_EQ(result.code, 0) << result.out << result.err;
  auto run = nlohmann::json::parse(read(folder_ / "a" / "report.json"))["run"];
  EXPECT_EQ(run["device"]["profile"], "a100-40g");
  EXPECT_EQ(run["device"]["capacity_bytes"], 5000000000);
  EXPECT_EQ(run["env"]["PYTORCH_ALLOC_CONF"], "expandable_segments:True");
  EXPECT_EQ(run["env"]["TIDEMARK_TIMEOUT"], "60");
  struct Case {
    const char* arguments;
    int code;
    const char* says;
  };
  for (const auto& each : {Case{"run 'nosuch*'", 4, "error: nothing matches"},
                           Case{"run fsdp_prefetch --ranks 3", 2, "the launcher started only 2"},
                           Case{"run fsdp_prefetch --out a", 2, "never overwrites"}}) {
    auto wrong = mpirun(each.arguments);
    EXPECT_EQ(wrong.code, each.code) << each.arguments;
    EXPECT_THAT(wrong.err, HasSubstr(each.says)) << each.arguments;
  }
  auto plan = mpirun("run fsdp_prefetch --dry-run");
  EXPECT_EQ(plan.code, 0);
  EXPECT_THAT(plan.out, HasSubstr("fsdp_prefetch/smoke/r2/math/instant"));
}

TEST_F(Command, EveryFlagHasAnEnvironmentTwin) {
  auto result = run("run fsdp_prefetch --dry-run",
                    "TIDEMARK_RANKS=3 TIDEMARK_SCHEDULE=lagging TIDEMARK_SEED=5");
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("/r3/"));
  EXPECT_THAT(result.out, HasSubstr("lagging"));
  EXPECT_THAT(result.out, ::testing::Not(HasSubstr("instant")));
}

}  // namespace
}  // namespace tidemark
