// Pictures of a program's memory: their sums are those of the trace, also where moments are left
// out.
#include "harness/memory/picture.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>

#include "harness/record/file.h"
#include "harness/record/gzip.h"
#include "harness/record/json.h"
#include "reports/program/page.h"
#include "reports/program/picture_data.h"
#include "reports/program/samples.h"

namespace tidemark {
namespace {

struct Drawn {
  Snapshot snapshot;
  DeviceSummary device;
  MemoryPicture picture;
};

Drawn drawn(Snapshot snapshot) {
  Drawn out{std::move(snapshot), {}, {}};
  out.device = analyse(out.snapshot).at(0);
  out.picture = picture_of(out.snapshot, out.device);
  return out;
}

TEST(Picture, SumsAreThoseOfTheTrace) {
  const Drawn d = drawn(training(3, 2, 4));
  const std::vector<std::int64_t> active = active_of(d.picture);
  ASSERT_EQ(active.size(), d.device.curve.size() + 1);
  for (std::size_t i = 0; i < d.device.curve.size(); ++i) {
    ASSERT_EQ(active[i + 1], d.device.curve[i].active) << i;
    ASSERT_EQ(d.picture.reserved[i + 1], d.device.curve[i].reserved) << i;
  }
  EXPECT_EQ(active[d.picture.peak], d.device.peak.active);
}

TEST(Picture, TheBlocksAtThePeakAreItsParts) {
  const Drawn d = drawn(training(3, 2, 4));
  std::map<MemoryKind, std::int64_t> by_kind, expected;
  for (const auto& block : d.picture.blocks)
    if (block.from <= d.picture.peak && d.picture.peak < block.until)
      by_kind[d.picture.places[block.place].kind] += block.bytes;
  for (const Part& part : d.device.parts) expected[part.kind] += part.bytes;
  EXPECT_EQ(by_kind, expected);
  EXPECT_GT(by_kind.size(), 3u);
  EXPECT_EQ(d.picture.places[d.picture.blocks.back().place].module.find('*'), std::string::npos);
}

TEST(Picture, FewerMomentsKeepThePeakAndTheirSums) {
  const Drawn d = drawn(training(4, 3, 6));
  const std::vector<std::int64_t> all = active_of(d.picture);
  for (const std::size_t most : {3u, 10u, 64u, 100'000u}) {
    const MemoryPicture few = thinned(d.picture, most);
    EXPECT_LE(few.events.size(), most);
    const std::vector<std::int64_t> active = active_of(few);
    for (std::size_t i = 0; i < few.events.size(); ++i)
      ASSERT_EQ(active[i], all[static_cast<std::size_t>(few.events[i])]) << most << ' ' << i;
    EXPECT_EQ(active[few.peak], d.device.peak.active) << most;
    EXPECT_EQ(std::ranges::max(active), d.device.peak.active) << most;
  }
}

TEST(Picture, APhaseIsTheShortestAtAMoment) {
  const Drawn d = drawn(training(3, 2, 4));
  const auto* phase = phase_at(d.picture, d.picture.peak);
  ASSERT_NE(phase, nullptr);
  EXPECT_EQ(phase->name, "backward");
  EXPECT_EQ(phase->step, 2);
}

TEST(Picture, ATraceThatBeginsInTheMiddleHasNone) {
  Snapshot snapshot = training(3, 2, 4);
  snapshot.traces[0].erase(snapshot.traces[0].begin(), snapshot.traces[0].begin() + 3);
  EXPECT_TRUE(drawn(std::move(snapshot)).picture.events.empty());
}

TEST(Picture, DataKeepToTheirBudget) {
  Report report;
  report.trials.resize(1);
  HighestPeak peak;
  for (const int layers : {3, 5, 5, 4}) {
    peak.pictures.push_back(drawn(training(layers, 3, 8)).picture);
    peak.pictures.back().where = "rank" + std::to_string(peak.pictures.size() - 1);
  }
  const auto all = picture_data(report, {peak}, "report.html");
  ASSERT_EQ(all["pictures"].size(), 3u);  // two are equal
  EXPECT_EQ(all["pictures"][0]["names"], nlohmann::json({"rank 1", "rank 2"}));
  EXPECT_TRUE(all["pictures"][0]["events"].is_null());
  const auto few = picture_data(report, {peak}, "report.html", {.packed = 1000});
  EXPECT_LT(few["pictures"][0]["moments"], all["pictures"][0]["moments"]);
  EXPECT_EQ(few["pictures"][0]["in_all"], all["pictures"][0]["in_all"]);
  EXPECT_TRUE(picture_data(report, {HighestPeak()}, "report.html").is_null());
}

TEST(Memory, ThePageIsWrittenAgainFromTheHistories) {
  namespace fs = std::filesystem;
  const fs::path folder = fs::path(testing::TempDir()) / "page_again";
  fs::remove_all(folder);
  write_programs(folder, false);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const fs::path page = entry.path() / "report.html";
    const std::string before = read_bytes(page);
    fs::remove(page);
    rerender_programs(entry.path(), read_report(entry.path()));
    EXPECT_EQ(read_bytes(page), before) << entry.path();
  }
}

}  // namespace
}  // namespace tidemark
