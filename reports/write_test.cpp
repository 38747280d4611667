#include "reports/write.h"

#include <fmt/format.h>
#include <gmock/gmock.h>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "harness/memory/snapshot.h"
#include "harness/record/file.h"
#include "harness/record/gzip.h"
#include "harness/record/json.h"
#include "harness/testing/refusal.h"
#include "reports/headline.h"
#include "reports/html.h"
#include "reports/page_data.h"
#include "reports/saving.h"
#include "reports/testing/sample.h"
#include "reports/trace.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;

std::map<std::string, std::string> contents(const fs::path& folder) {
  std::map<std::string, std::string> out;
  for (const auto& entry : fs::recursive_directory_iterator(folder)) {
    if (entry.is_regular_file()) out[fs::relative(entry, folder).string()] = read_bytes(entry);
  }
  return out;
}

/// Names of the files that differ.
std::string difference(const std::map<std::string, std::string>& a,
                       const std::map<std::string, std::string>& b) {
  std::string out;
  for (const auto& [name, bytes] : a) {
    if (!b.contains(name)) {
      out += name + " is missing; ";
    } else if (b.at(name) != bytes) {
      out += name + " differs " + first_difference(bytes, b.at(name)) + "; ";
    }
  }
  for (const auto& [name, bytes] : b) {
    if (!a.contains(name)) out += name + " is new; ";
  }
  return out;
}

struct Files : testing::Test {
  ScratchFolder scratch;
};

TEST_F(Files, WritesTheNamedFilesAndNoOther) {
  write_all(scratch / "out", small_report());
  std::vector<std::string> names,
      expected{"report.json", "report.html", "junit.xml", "summary.md", "benchmark.json"};
  for (const auto& [name, bytes] : contents(scratch / "out")) names.push_back(name);
  for (const std::string schedule : {"instant", "lagging"})
    for (const std::string variant : {"record_stream", "stash"}) {
      const std::string place = "/fsdp_prefetch/smoke/r2/math/" + schedule + "/" + variant;
      for (const std::string& name :
           {"details" + place + ".json.gz", "loss" + place + ".txt", "trace" + place + ".json.gz",
            "snapshot" + place + "_rank0.record", "snapshot" + place + "_rank1.record"})
        expected.push_back(name);
    }
  EXPECT_THAT(names, testing::UnorderedElementsAreArray(expected));
}

TEST_F(Files, TwoWritesAreByteIdentical) {
  write_all(scratch / "a", sample_report(4));
  write_all(scratch / "b", sample_report(4));
  EXPECT_EQ(difference(contents(scratch / "a"), contents(scratch / "b")), "");
}

TEST_F(Files, RerenderingGivesTheSameFiles) {
  write_all(scratch / "out", sample_report(2));
  const auto before = contents(scratch / "out");
  const std::set<std::string> kept{"report.json", "details", "trace", "snapshot"};
  for (const auto& [name, bytes] : before)
    if (!kept.contains(name.substr(0, name.find('/')))) fs::remove(scratch / ("out/" + name));
  rerender(scratch / "out");
  EXPECT_EQ(difference(before, contents(scratch / "out")), "");
}

TEST_F(Files, NeverOverwritesAReport) {
  write_all(scratch / "out", small_report());
  const auto before = contents(scratch / "out");
  EXPECT_THAT(refusal([&] { write_all(scratch / "out", sample_report(2)); }),
              HasSubstr("holds a report already"));
  EXPECT_EQ(difference(before, contents(scratch / "out")), "");
}

TEST_F(Files, NothingHalfWritten) {
  std::ofstream(scratch / "file") << "x";
  EXPECT_THAT(refusal([&] { write_all(scratch / "file/out", small_report()); }),
              HasSubstr("cannot be made"));
  // A folder where a file should be: the last rename cannot work, the drafts go.
  fs::create_directories(scratch / "out/summary.md/x");
  EXPECT_THAT(refusal([&] {
                write_files(scratch / "out", {{"summary.md", "y"}});
              }),
              HasSubstr("cannot be put in place"));
  EXPECT_FALSE(fs::exists(scratch / "out/summary.md.partial"));
  // One cannot be written: none of the files appears.
  fs::create_directories(scratch / "full/b.partial");
  EXPECT_THAT(refusal([&] {
                write_files(scratch / "full", {{"a", "x"}, {"b", std::string(100000, 'y')}});
              }),
              HasSubstr("b.partial: cannot be written: Is a directory"));
  EXPECT_TRUE(contents(scratch / "full").empty());
}

TEST_F(Files, WhatFitsOnAFullDiskIsThere) {
  fs::create_directories(scratch / "rest/report.html.partial");
  fs::create_directories(scratch / "rest/junit.xml.partial");
  EXPECT_THAT(refusal([&] { write_all(scratch / "rest", sample_report(2)); }),
              AllOf(HasSubstr("junit.xml.partial: cannot be written: Is a directory"),
                    HasSubstr(", and 1 more file; report.json and details/ are whole: make room, "
                              "then write the others by tidemark report ")));
  EXPECT_TRUE(fs::exists(scratch / "rest/summary.md"));
  EXPECT_FALSE(fs::exists(scratch / "rest/report.html"));
  rerender(scratch / "rest");
  EXPECT_TRUE(fs::exists(scratch / "rest/report.html") && fs::exists(scratch / "rest/junit.xml"));

  fs::create_directories(scratch / "none/report.json.partial");
  EXPECT_THAT(refusal([&] { write_all(scratch / "none", sample_report(2)); }),
              HasSubstr("report.json.partial: cannot be written: Is a directory: make room there"));
  EXPECT_TRUE(contents(scratch / "none").empty());
}

TEST_F(Files, WritesIntoAnEmptyFolderAndSaysWhereItCannot) {
  write_all(scratch.path(), small_report());
  EXPECT_TRUE(fs::exists(scratch / "report.json"));
  EXPECT_THAT(refusal([] { write_all("/proc/tidemark", small_report()); }),
              HasSubstr("/proc/tidemark: cannot be made"));
}

TEST_F(Files, RerenderSaysWhatIsMissing) {
  EXPECT_THAT(refusal([&] { rerender(scratch / "none"); }),
              HasSubstr("is neither a run's folder nor its report.json"));
  EXPECT_THAT(refusal([&] { rerender(scratch.path()); }), HasSubstr("cannot be read"));
  std::ofstream(scratch / "report.json") << json_text(small_report()).substr(0, 999);
  EXPECT_THAT(refusal([&] { rerender(scratch.path()); }), HasSubstr("cut off"));
  EXPECT_EQ(contents(scratch.path()).size(), 1u);
}

TEST_F(Files, RerenderNeedsTheDetails) {
  write_all(scratch / "out", small_report());
  const std::string file =
      scratch / "out/details/fsdp_prefetch/smoke/r2/math/lagging/stash.json.gz";
  std::ofstream(file) << "x";
  EXPECT_THAT(refusal([&] { rerender(scratch / "out"); }), HasSubstr(file + ": it is not gzip"));
  fs::remove(file);
  EXPECT_THAT(refusal([&] { rerender(scratch / "out"); }), HasSubstr(file + ": cannot be read"));
}

// A report of version 1.x has everything in report.json.
TEST_F(Files, RerenderTakesAReportThatHoldsItsDetails) {
  write_all(scratch / "out", sample_report(2));
  auto before = contents(scratch / "out");
  fs::create_directories(scratch / "old");
  std::ofstream(scratch / "old/report.json") << json_text(sample_report(2));
  rerender(scratch / "old");
  const auto after = contents(scratch / "old");
  EXPECT_EQ(after.at("report.html"), before.at("report.html"));
  EXPECT_EQ(after.at("junit.xml"), before.at("junit.xml"));
}

TEST_F(Files, RerenderTakesTheFileAndAdvisesNoOptionThatItHasNot) {
  write_all(scratch / "out", small_report());
  fs::remove(scratch / "out/summary.md");
  const Rendered done = rerender(scratch / "out/report.json");
  EXPECT_EQ(done.folder, fs::path(scratch / "out"));
  EXPECT_EQ(done.report.count(Status::fail), 1);
  EXPECT_TRUE(fs::exists(scratch / "out/summary.md"));
  fs::remove(scratch / "out/summary.md");
  fs::create_directories(scratch / "out/summary.md/x");
  const std::string why = refusal([&] { rerender(scratch / "out"); });
  EXPECT_THAT(why, HasSubstr("make the folder writable"));
  EXPECT_THAT(why, testing::Not(HasSubstr("--out")));
}

TEST_F(Files, HostileNamesStayInsideTheFolder) {
  write_all(scratch / "in/out", hostile_report());
  for (const auto& [name, bytes] : contents(scratch.path()))
    EXPECT_THAT(name, testing::StartsWith("in/out/"));
  EXPECT_EQ(path_component(".."), "_..");
  EXPECT_EQ(path_component(""), "_");
  EXPECT_EQ(path_component("a/b c"), "a_b_c");
}

TEST_F(Files, TrialsOfOneNameDoNotShareFiles) {
  Report report = small_report();
  report.trials[1].schedule = report.trials[0].schedule;
  report.trials[1].params["layers"] = 5;
  write_all(scratch / "out", report);
  EXPECT_TRUE(fs::exists(scratch / "out/loss/fsdp_prefetch/smoke/r2/math/instant/stash_2.txt"));
}

TEST_F(Files, ShapesHaveNoLosses) {
  Report report = small_report();
  for (LossPoint& point : report.trials[0].variants[0].loss) point.value.reset();
  EXPECT_EQ(loss_lines(report.trials[0].variants[0]), "");
}

TEST_F(Files, LossesReadAsPythonWritesThem) {
  VariantRecord variant;
  variant.loss = {{0, 0.1},  {1, 1.0}, {2, 1e16},    {3, 1e-5}, {4, 123456789012345680.0},
                  {5, -0.0}, {6, NAN}, {7, HUGE_VAL}};
  EXPECT_EQ(loss_lines(variant),
            "0 0.1\n1 1.0\n2 1e+16\n3 1e-05\n4 1.2345678901234568e+17\n5 -0.0\n6 nan\n7 inf\n");
}

TEST_F(Files, TraceIsGzippedJson) {
  const VariantRecord variant = hostile_report().trials[0].variants[0];
  const auto trace = nlohmann::json::parse(gunzip(gzip(chrome_trace(variant))).value());
  // For each of two ranks a name, those of its three lanes, a phase, its spans, and three counters
  // at three moments.
  const std::size_t spans = variant.ranks[0].spans.all.size();
  const auto& events = trace["traceEvents"];
  ASSERT_EQ(events.size(), 2u * (1 + 3 + 1 + spans + 9));
  EXPECT_EQ(events[4]["cat"], "collective");
  EXPECT_EQ(events[4]["tid"], 3);
  EXPECT_EQ(events[4]["dur"], 0.3);
  EXPECT_EQ(events[5 + spans]["args"]["bytes"], 3 << 20);
  EXPECT_EQ(events[8 + spans]["ts"], 1.5);
}

TEST(Html, NamesOfTheReportStayText) {
  const std::string page = html(hostile_report());
  EXPECT_EQ(page.find("<img"), std::string::npos);
  EXPECT_EQ(page.find("onerror=\""), std::string::npos);
  EXPECT_THAT(page, HasSubstr("&lt;/script&gt;&lt;img"));
  EXPECT_THAT(unpacked_page_data(page)["trials"][0]["scenario"].get<std::string>(),
              testing::StartsWith("</script><img"));
}

TEST(Html, ResultAndTableStandInTheSource) {
  const Report report = sample_report(2);
  const std::string page = html(report), source = page.substr(0, page.find("id=\"data\""));
  EXPECT_THAT(source, HasSubstr("<title>tidemark: " + headline(report) + "</title>"));
  EXPECT_THAT(source, HasSubstr(">" + headline(report) + "</h1>"));
  EXPECT_THAT(source, HasSubstr("a href=\"#/fsdp_prefetch?trial=0\">fsdp_prefetch</a> / "));
  EXPECT_THAT(source, HasSubstr(" bytes\">"));
  EXPECT_THAT(source, HasSubstr("memory/form/reserved/backward"));
  EXPECT_THAT(source, HasSubstr("<noscript"));
}

TEST(Html, AnotherRunStandsBeside) {
  const Report report = small_report();
  Report base = report;
  base.run.id = "last-night";
  for (Phase& phase : base.trials[1].variants[0].ranks[0].steps.back().phases)
    phase[Statistic::active].peak += 1 << 20;
  const Changes changes{"1 regression",
                        "12 comparisons: 1 regression",
                        Status::fail,
                        {{"Regressions (1)", {"active"}}}};
  const std::string page = html(report, &base, &changes);
  EXPECT_THAT(page, HasSubstr("Compared with run last-night"));
  EXPECT_THAT(page, HasSubstr("<h1 class=\"fail\""));
  EXPECT_THAT(page, HasSubstr("; against the other run: 1 regression</h1>"));
  EXPECT_THAT(page, HasSubstr(" 12 comparisons: 1 regression."));
  EXPECT_THAT(page, HasSubstr("<h2>Regressions (1)</h2>"));
  EXPECT_THAT(html(report), testing::Not(HasSubstr("Compared with run")));
}

TEST(Html, SeedComesFirstAndSmokeIsOneRowWhereAllIsAsPredicted) {
  Report report = small_report();
  report.trials.resize(1);
  TrialRecord& trial = report.trials[0];
  for (Verdict& verdict : trial.verdicts) verdict.status = Status::pass;
  trial.size = "smoke";
  for (const char* name : {"second", "third"})
    report.trials.push_back(report.trials[0]), report.trials.back().scenario = name;
  report.trials.push_back(report.trials[0]);
  report.trials.back().size = "seed";
  const std::int64_t verdicts = 3 * std::ssize(report.trials[0].verdicts);
  const std::string folded =
      fmt::format("<summary>3 scenarios of size smoke, {}: as predicted</summary>",
                  plural(verdicts, "verdict"));
  std::string page = html(report);
  ASSERT_THAT(page, HasSubstr(folded));
  EXPECT_LT(page.find("</a> / seed<"), page.find(folded));
  EXPECT_GT(page.find("</a> / smoke<"), page.find(folded));
  EXPECT_THAT(page, HasSubstr("?trial=1\">" + report.trials[0].scenario + "</a> / seed"));
  report.trials[1].verdicts[0].status = Status::fail;
  page = html(report);
  EXPECT_THAT(page, HasSubstr("<summary>2 scenarios of size smoke"));
  EXPECT_LT(page.find(">second</a> / smoke"), page.find("<summary>2 scenarios"))
      << "what failed stands open";
}

TEST(Html, OfADocumentTheTextAndTheDataOfItsCharts) {
  const std::string page =
      html(Document{"parity",
                    "<b>",
                    Status::fail,
                    {{"title",
                      {"a < b"},
                      {{"</script>", "step", "loss", false, {{"A", {{1, 0.5}, {2, NAN}}}}},
                       {"no points", "step", "loss", false, {{"A", {}}}}},
                      {{"step", "A"}, {"1", "x"}}}}});
  EXPECT_THAT(page, HasSubstr("<h1 class=\"fail\">&lt;b&gt;</h1>"));
  EXPECT_THAT(page, HasSubstr("<p>a &lt; b</p>"));
  EXPECT_THAT(
      page, HasSubstr(R"({"title":"\u003c/script>","x":"step","y":"loss","bytes":false,)"
                      R"("dates":false,"lines":[{"name":"A","points":[[1.0,0.5],[2.0,null]]}]})"));
  EXPECT_THAT(page, HasSubstr("<td class=\"figure\">1</td><td>x</td>"));
  EXPECT_THAT(page, testing::Not(HasSubstr("no points")));
}

// Files that the page links to are files that write_all writes.
TEST(Html, EveryLinkedFileIsThere) {
  ScratchFolder scratch;
  int n = 0;
  std::size_t links = 0;
  const auto look = [&](const fs::path& at, const Report& report) {
    const auto data = page_data(report);
    for (const auto& trial : data["trials"])
      for (const auto& variant : trial["variants"])
        for (const auto& file : variant["files"]) {
          EXPECT_TRUE(fs::exists(at / file[1].get<std::string>())) << file;
          ++links;
        }
  };
  for (const Report& report : {small_report(), sample_report(2), hostile_report()}) {
    const fs::path at = scratch / std::to_string(++n);
    write_all(at, report);
    look(at, read_report(at));
    EXPECT_GT(links, 4u);
    fs::remove_all(at / "snapshot");
    links = 0;
    look(at, rerender(at).report);
    EXPECT_GT(links, 0u);
  }
}

// The browser's test cuts the network; this one sees what a browser would not come to.
TEST(Html, AsksNoNetwork) {
  const std::string page = html(sample_report(2));
  const auto allowed = testing::AnyOf(testing::StartsWith("http://www.w3.org/"),  // names of SVG
                                      testing::StartsWith("url(#"),               // within the page
                                      testing::StartsWith("https://github.com/ecomfe/zrender"));
  for (const char* word : {"http://", "https://", "//cdn", "@import", "src=\"", "url("}) {
    for (auto at = page.find(word); at != std::string::npos; at = page.find(word, at + 1))
      EXPECT_THAT(page.substr(at, 60), allowed);
  }
  EXPECT_THAT(page, HasSubstr("default-src 'none'"));
  EXPECT_THAT(page, HasSubstr("script-src 'sha256-"));
}

}  // namespace
}  // namespace tidemark
