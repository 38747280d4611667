// The history: many processes at once, what is no history, trends and their steps.
#include "reports/history/history.h"

#include <gmock/gmock.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/record/file.h"
#include "harness/testing/refusal.h"
#include "reports/history/nights_of.h"
#include "reports/history/trial_times.h"
#include "reports/html.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using testing::ElementsAre;
using testing::HasSubstr;

Report numbered(int n, Bytes more = 0) {
  Report report = small_report();
  report.trials.erase(report.trials.begin() + 1);  // the one with a failed verdict
  report.run.id = "run-" + std::to_string(n);
  report.run.started = "2026-01-" + std::to_string(10 + n) + "T00:00:00Z";
  report.trials[0].variants[1].ranks[1].steps[0].phases[0][Statistic::active].peak += more;
  return report;
}

class Past : public testing::Test {
 protected:
  void record(int n, Bytes more = 0) { record_run(folder_ / std::to_string(n), numbered(n, more)); }
  std::string file() const { return folder_ / "history.sqlite"; }
  Trend only(const std::string& glob) {
    const History history = read_history(folder_.path(), {"", {glob}});
    EXPECT_EQ(history.trends.size(), 1u);
    return history.trends.empty() ? Trend{} : history.trends[0];
  }
  ScratchFolder folder_;
};

constexpr const char* kActive = "*instant stash memory/active/forward";

TEST_F(Past, TheWorstRankOfEveryRun) {
  record(1);
  record(2, 512);
  const Trend trend = only(kActive);
  ASSERT_EQ(trend.points.size(), 2u);
  EXPECT_EQ(trend.points[0].value, 5.0 * kMiB) << "rank 0 is the worst";
  EXPECT_EQ(trend.points[1].value, 5.0 * kMiB);
  record(3, 2 * kMiB);
  EXPECT_EQ(only(kActive).points[2].value, 6.0 * kMiB) << "now rank 1 is";
}

TEST_F(Past, ARunWithOtherSettingsIsAnotherSeries) {
  record(1);
  const std::vector<std::vector<std::string>> others{
      {"tidemark", "run", "--alloc-conf", "expandable_segments:True"},
      {"tidemark", "run", "--races=on"},
      {"tidemark", "run", "--out", "elsewhere", "--force"}};  // which is no setting
  for (std::size_t i = 0; i < others.size(); ++i) {
    Report report = numbered(static_cast<int>(i) + 2, kMiB);
    report.run.argv = others[i];
    record_run(folder_ / std::to_string(i + 2), report);
  }
  Report tree = numbered(9);
  tree.run.env["NCCL_ALGO"] = "Tree";
  record_run(folder_ / "9", tree);
  const History history = read_history(folder_.path(), {"", {kActive}});
  std::vector<std::size_t> points;
  for (const Trend& trend : history.trends) points.push_back(trend.points.size());
  EXPECT_THAT(points, testing::UnorderedElementsAre(2, 1, 1, 1));
  EXPECT_THAT(history_text(history, true),
              HasSubstr("PYTORCH_ALLOC_CONF=expandable_segments:True"));
}

TEST_F(Past, TheNightsBeforeAsTheyWereOfEachDayTheLastRun) {
  for (int n = 1; n <= 15; ++n) record(n, n == 3 ? 2 * kMiB : 0);
  Report again = numbered(14, 3 * kMiB);  // later on the same day
  again.run.id = "again", again.run.started = "2026-01-24T12:00:00Z";
  record_run(folder_ / "again", again);
  Report now = numbered(16, 4 * kMiB);
  const auto peaks = [&](const std::string& variant, Statistic statistic) {
    const Nights nights = nights_of(file(), now);
    const auto series = nights.peaks.find({now.trials.data(), variant, statistic});
    return series == nights.peaks.end() ? std::vector<Bytes>() : series->second;
  };
  std::vector<Bytes> expected(14, 5 * kMiB);  // 3 to 15, and today
  expected[0] = 6 * kMiB, expected[11] = 7 * kMiB, expected[13] = 8 * kMiB;
  EXPECT_EQ(peaks("stash", Statistic::active), expected);
  const Nights nights = nights_of(file(), now);
  EXPECT_THAT(html(now, nullptr, nullptr, &nights),
              HasSubstr("the last 14 nights: 6 MiB, 5 MiB, "));
  EXPECT_THAT(nights_html(&nights, now.trials[0], "record_stream", Statistic::active),
              HasSubstr("in each"));
  now.run.started = "2026-01-11T09:00:00Z";
  EXPECT_TRUE(nights_of(file(), now).peaks.empty()) << "no night before";
  now = numbered(16);
  now.trials[0].steps += 1;
  EXPECT_TRUE(nights_of(file(), now).peaks.empty()) << "other settings are another trial";
  now = numbered(16);
  now.run.capacity_bytes += 1;
  EXPECT_TRUE(nights_of(file(), now).peaks.empty()) << "another device";
  std::ofstream(folder_ / "broken") << "no database";
  EXPECT_TRUE(nights_of(folder_ / "broken", now).peaks.empty());
  EXPECT_TRUE(nights_of(folder_ / "none", now).peaks.empty());
}

TEST_F(Past, TheLatestTimeOfATrial) {
  for (const int n : {2, 3, 1}) {  // not in the order in which they started
    Report report = numbered(n);
    report.run.trial_ns = {n * 1000};
    record_run(folder_ / std::to_string(n), report);
  }
  const Report now = numbered(4);
  const auto took = [&](const std::string& host) {
    return time_of(past_trials(file(), host, false), now.trials[0]);
  };
  EXPECT_EQ(took(now.run.host), 3000);
  EXPECT_EQ(took(now.run.host + "-other"), std::nullopt);
}

TEST_F(Past, WhatAProgramTookLast) {
  EXPECT_EQ(past_program_time(file(), "host", "known: train.py"), std::nullopt);
  record_program_time(file(), "host", "known: train.py", 5'000'000'000);
  record_program_time(file(), "host", "known: train.py", 200'000'000'000);
  EXPECT_EQ(past_program_time(file(), "host", "known: train.py"), 200'000'000'000);
  EXPECT_EQ(past_program_time(file(), "other", "known: train.py"), std::nullopt);
  record(1);  // beside the tables of runs
  EXPECT_EQ(past_program_time(file(), "host", "known: train.py"), 200'000'000'000);
  EXPECT_EQ(in_minutes(200'000'000'000), "3 min 20 s");
}

TEST_F(Past, TheRunAtWhichAMetricStepped) {
  for (int n : {3, 1, 2}) record(n);  // whatever the order of writing
  for (int n : {4, 5}) record(n, 2 * kMiB);
  record(6);
  EXPECT_THAT(only(kActive).steps(), ElementsAre(3u, 5u));
  const History history = read_history(file(), {"", {}});
  EXPECT_EQ(history.runs[3].id, "run-4");
  const std::string text = history_text(history, false);
  EXPECT_THAT(text,
              HasSubstr("stash memory/active/forward: 5,242,880 (3 runs) -> 6,291,456 (2 runs, "
                        "since run-4 git 0123456789ab (worse)) -> 5,242,880 (1 run, since run-6 "
                        "git 0123456789ab (better)) bytes"));
  EXPECT_EQ(text.find("record_stream"), std::string::npos) << "what did not step is left out";
  EXPECT_TRUE(
      text.starts_with("stash of fsdp_prefetch/smoke/r2/math/instant: 1 MiB less since "
                       "2026-01-16 00:00 (git 0123456789ab)"))
      << text;
  EXPECT_LT(text.find("run-6 git"), text.find("\nruns\n")) << "what stepped is the answer";
  EXPECT_THAT(history_text(history, true), HasSubstr("record_stream memory/active/forward"));
  const auto json = nlohmann::json::parse(history_json(history));
  bool has_trend = false;
  for (const auto& trend : json["trends"])
    if (trend["variant"] == "stash" && trend["metric"] == "memory/active/forward") {
      has_trend = true;
      EXPECT_EQ(trend["stepped_at"], (std::vector<std::string>{"run-4", "run-6"}));
      EXPECT_EQ(trend["points"][4]["value"], 6291456);
    }
  EXPECT_TRUE(has_trend);
  EXPECT_THAT(history_html(history, false), HasSubstr("<figure>"));
}

TEST_F(Past, TimeStepsBeyondItsThresholdAlone) {
  for (int n = 1; n <= 4; ++n) {
    Report report = numbered(n);
    const double factor = n < 3 ? 1 + 0.01 * n : 1.2;
    for (Ns& t : report.trials[0].variants[0].step_time_ns)
      t = static_cast<Ns>(static_cast<double>(t) * factor);
    record_run(folder_ / std::to_string(n), report);
  }
  EXPECT_THAT(only("*instant record_stream time/step").steps(), ElementsAre(2u));
}

TEST_F(Past, OtherSettingsAreAnotherTrend) {
  record(1);
  Report other = numbered(2, 2 * kMiB);
  other.trials[0].params["layers"] = 5;
  record_run(folder_ / "2", other);
  EXPECT_EQ(read_history(file(), {"", {kActive}}).trends.size(), 2u);
  EXPECT_THAT(history_text(read_history(file(), {"", {kActive}}), true), HasSubstr("layers=5"));
}

TEST_F(Past, SinceAndPrune) {
  for (int n = 1; n <= 5; ++n) record(n);
  EXPECT_EQ(read_history(file(), {"2026-01-13", {}}).runs.size(), 3u);
  EXPECT_EQ(read_history(file(), {"2026-01-13T00:00:01Z", {}}).runs.size(), 2u);
  EXPECT_EQ(read_history(file(), {"1h", {}}).runs.size(), 0u);
  EXPECT_THAT(refusal<HistoryError>([&] {
                read_history(file(), {"yesterday", {}});
              }),
              HasSubstr("neither a date"));
  EXPECT_EQ(prune_history(file(), "2026-01-12"), 1);
  EXPECT_EQ(prune_history(file(), "2"), 2);
  const History history = read_history(file(), {"", {}});
  ASSERT_EQ(history.runs.size(), 2u);
  EXPECT_EQ(history.runs[0].id, "run-4");
  for (const Trend& trend : history.trends) EXPECT_EQ(trend.points.size(), 2u);
  EXPECT_EQ(prune_history(file(), "0"), 2);
  EXPECT_TRUE(read_history(file(), {"", {}}).trends.empty());
  EXPECT_NE(refusal<HistoryError>([&] { prune_history(file(), "-1"); }), kNothingRefused);
}

TEST_F(Past, ARunIsThereOnce) {
  record(1);
  record(1, 2 * kMiB);
  ASSERT_EQ(only(kActive).points.size(), 1u);
  EXPECT_EQ(only(kActive).points[0].value, 6.0 * kMiB);
}

TEST_F(Past, AMissingValueStaysMissing) {
  Report report = numbered(1);
  report.trials[0].variants[0].loss.back().value = NAN;
  record_run(folder_ / "1", report);
  record(2);
  const Trend trend = only("*instant record_stream loss");
  EXPECT_FALSE(trend.points[0].value.has_value());
  EXPECT_THAT(trend.steps(), ElementsAre(1u));
}

TEST_F(Past, TheLatestGoodRunIsTheOneWhoseReportIsThere) {
  record(1);
  record(2);
  Report failed = numbered(3);
  failed.trials[0].verdicts[0].status = Status::fail;
  record_run(folder_ / "3", failed);
  EXPECT_EQ(last_good(file()), "");
  for (int n : {1, 3}) {
    fs::create_directories(folder_ / std::to_string(n));
    std::ofstream(folder_ / (std::to_string(n) + "/report.json")) << "{}";
  }
  EXPECT_EQ(last_good(file()), folder_ / "1");
}

TEST_F(Past, ManyProcessesAtOnceLoseNothing) {
  constexpr int kProcesses = 6, kEach = 4;
  std::vector<pid_t> children;
  for (int p = 0; p < kProcesses; ++p) {
    const pid_t child = fork();
    if (child == 0) {
      try {
        for (int i = 0; i < kEach; ++i) {
          Report report = numbered(p * kEach + i);
          record_run(folder_ / report.run.id, report, 60000);
        }
        _exit(0);
      } catch (const std::exception& e) {
        std::fprintf(stderr, "%s\n", e.what());
        _exit(1);
      }
    }
    children.push_back(child);
  }
  for (pid_t child : children) {
    int status = -1;
    waitpid(child, &status, 0);
    EXPECT_EQ(status, 0);
  }
  const History history = read_history(file(), {"", {kActive}});
  EXPECT_EQ(history.runs.size(), static_cast<std::size_t>(kProcesses * kEach));
  ASSERT_EQ(history.trends.size(), 1u);
  EXPECT_EQ(history.trends[0].points.size(), history.runs.size());
}

TEST_F(Past, ALockedHistoryIsWaitedForAndThenSaid) {
  record(1);
  Database other(file(), Database::Open::write, 0);
  other.run("BEGIN EXCLUSIVE");
  EXPECT_THAT(refusal<HistoryError>([&] { record_run(folder_ / "2", numbered(2), 100); }),
              HasSubstr("is locked"));
  other.run("ROLLBACK");
  record(2);
  EXPECT_EQ(read_history(file(), {"", {}}).runs.size(), 2u);
}

TEST_F(Past, AFileThatIsNoHistoryIsNotChanged) {
  const auto refused = [&](const char* says) {
    const std::string before = read_bytes(file());
    EXPECT_THAT(refusal<HistoryError>([&] { record(1); }), HasSubstr(says));
    EXPECT_THAT(refusal<HistoryError>([&] { read_history(file(), {"", {}}); }), HasSubstr(says));
    EXPECT_THAT(refusal<HistoryError>([&] { prune_history(file(), "0"); }), HasSubstr(says));
    EXPECT_TRUE(read_bytes(file()) == before) << "was changed: " << says;
    fs::remove(file());
  };
  EXPECT_THAT(refusal<HistoryError>([&] {
                read_history(file(), {"", {}});
              }),
              HasSubstr("has no history"));
  std::ofstream(file()) << std::string(5000, 'x');
  refused("is not a history");
  { Database(file(), Database::Open::write, 0).run("CREATE TABLE mine (x)"); }
  refused("another program's database");
  record(1);
  {
    Database(file(), Database::Open::write, 0)
        .run("PRAGMA journal_mode = DELETE; PRAGMA user_version = 2");
  }
  refused("has schema 2 where this tidemark knows 1");
  record(1);
  { Database(file(), Database::Open::write, 0).run("PRAGMA journal_mode = DELETE"); }
  fs::resize_file(file(), fs::file_size(file()) / 2);
  EXPECT_THAT(refusal<HistoryError>([&] { record(1); }), HasSubstr("is damaged"));
}

TEST_F(Past, ReadingLeavesNoFileBehind) {
  const auto names = [&] {
    std::vector<std::string> out;
    for (const auto& each : fs::directory_iterator(folder_.path()))
      out.push_back(each.path().filename().string());
    std::ranges::sort(out);
    return out;
  };
  record(1);
  const auto written = names();
  EXPECT_EQ(read_history(file(), {"", {}}).runs.size(), 1u);
  EXPECT_EQ(names(), written);
  // As tidemark wrote it before: the log is empty once every writer has closed the file.
  { Database(file(), Database::Open::write, 0).run("PRAGMA journal_mode = WAL"); }
  const std::string before = read_bytes(file());
  EXPECT_EQ(read_history(file(), {"", {}}).runs.size(), 1u);
  last_good(file());
  EXPECT_EQ(names(), written);
  EXPECT_TRUE(read_bytes(file()) == before);
}

TEST_F(Past, AWriteAheadLogThatIsInUseIsRead) {
  record(1);
  Database writer(file(), Database::Open::write, 0);
  writer.run("PRAGMA journal_mode = WAL; UPDATE run SET git = 'new'");
  EXPECT_EQ(read_history(file(), {"", {}}).runs.at(0).git, "new");
}

TEST_F(Past, AFolderThatCannotBeWritten) {
  EXPECT_THAT(refusal<HistoryError>([&] { record_run("/proc/tidemark/run", numbered(1)); }),
              HasSubstr("history.sqlite: "));
}

}  // namespace
}  // namespace tidemark
