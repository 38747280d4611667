// sample_reports DIR [huge]: writes every made-up report as DIR/<name>/; with "huge" pages alone,
// too: of the largest report, of one beside another, and a document. sample_reports DIR ranks: the
// program of 512 ranks and nothing else.
#include <cmath>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string_view>

#include "harness/record/json.h"
#include "reports/compare/render.h"
#include "reports/fit/samples.h"
#include "reports/html.h"
#include "reports/program/page.h"
#include "reports/program/samples.h"
#include "reports/saving.h"
#include "reports/testing/sample.h"
#include "reports/write.h"

int main(int argc, char** argv) try {
  const std::string_view more = argc == 3 ? argv[2] : "";
  if (argc != 2 && more != "huge" && more != "ranks") {
    std::fprintf(stderr, "usage: sample_reports DIR [huge|ranks]\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  if (more == "ranks") return tidemark::write_program_of_512_ranks(folder), 0;
  tidemark::Report passing = tidemark::small_report();
  passing.trials.resize(1);
  tidemark::write_all(folder / "small", tidemark::small_report());
  tidemark::write_all(folder / "passing", passing);
  tidemark::write_all(folder / "sample", tidemark::sample_report());
  tidemark::write_all(folder / "tests", tidemark::tests_report());
  tidemark::write_all(folder / "gpu", tidemark::gpu_report());
  tidemark::write_all(folder / "cut", tidemark::cut_report());
  tidemark::write_all(folder / "hostile", tidemark::hostile_report());
  tidemark::write_all(folder / "empty", {});
  tidemark::write_programs(folder, argc == 3);
  if (argc == 3) {
    tidemark::write_fits(folder);
    tidemark::write_snapshots(folder);
    tidemark::Report before = tidemark::sample_report();
    for (auto& phase : before.trials[3].variants[2].ranks[0].steps.back().phases)
      for (auto& level : phase.levels) level.peak *= 2;
    const tidemark::Report sample = tidemark::sample_report();
    tidemark::Nights nights;
    for (const auto& trial : sample.trials)
      for (const auto& variant : trial.variants)
        nights.peaks[{&trial, variant.name, trial.statistic}] = {
            5 << 20, 5 << 20, 6 << 20, tidemark::worst_peak(variant, trial.statistic)};
    const tidemark::Changes since = tidemark::changes_of(tidemark::compare(before, sample, {}),
                                                         {"before", before}, {"new", sample});
    tidemark::write_files(folder / "beside",
                          {{"report.html", tidemark::html(sample, &before, &since, &nights)}});
    tidemark::write_files(
        folder / "document",
        {{"report.html",
          tidemark::html(tidemark::Document{
              "history",
              "2 runs, <b>1</b> stepped",
              tidemark::Status::fail,
              {{"Peaks </script>",
                {"A line of text.", "Another."},
                {{"memory <i>",
                  "run",
                  "active",
                  true,
                  {{"base", {{0, 1 << 20}, {1, NAN}, {2, 2 << 20}, {3, 3 << 20}}},
                   {"new", {{0, 1 << 20}, {3, 4 << 20}}}}},
                 {"loss", "step", "loss", false, {{"", {{0, 0.25}, {1, 0.125}}}}},
                 {"dated", "date", "bytes", true, {{"", {{1.8e9, 1}, {1.8e9 + 23, 2}}}}, true}},
                {{"run", "started", "peak", "mean"},
                 {"20261130-171737-197a2a", "2026-11-30T17:17:38Z", "1,048,576", "-0.5"},
                 {"20261130-171729-38f2a7", "2026-11-30T17:17:30Z", "2 MiB", "8.8e-05"}}}}})}});
    const tidemark::Report old = tidemark::read_report(folder / "program"),
                           fresh = tidemark::write_program(folder / "program_changed",
                                                           {tidemark::training(5, 3, 9)});
    tidemark::write_files(folder / "program_changed",
                          {{"rank0.json", tidemark::snapshot_json(tidemark::training(5, 3, 9))}});
    const tidemark::Changes changes =
        tidemark::changes_of(tidemark::compare(old, fresh, {}), {"old", old, folder / "program"},
                             {"new", fresh, folder / "program_changed"});
    tidemark::rerender_programs(folder / "program_changed", fresh, &changes);
    tidemark::write_files(folder / "huge",
                          {{"report.html", tidemark::html(tidemark::huge_report())}});
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 2;
}
