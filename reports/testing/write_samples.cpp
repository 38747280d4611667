// sample_reports DIR [huge]: writes every made-up report as DIR/<name>/; with "huge" the page of
// the largest one, too.
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string_view>

#include "reports/html.h"
#include "reports/testing/sample.h"
#include "reports/write.h"

int main(int argc, char** argv) try {
  if (argc != 2 && !(argc == 3 && std::string_view(argv[2]) == "huge")) {
    std::fprintf(stderr, "usage: sample_reports DIR [huge]\n");
    return 2;
  }
  const std::filesystem::path folder = argv[1];
  tidemark::Report passing = tidemark::small_report();
  passing.trials.resize(1);
  tidemark::write_all(folder / "small", tidemark::small_report());
  tidemark::write_all(folder / "passing", passing);
  tidemark::write_all(folder / "sample", tidemark::sample_report());
  tidemark::write_all(folder / "gpu", tidemark::gpu_report());
  tidemark::write_all(folder / "cut", tidemark::cut_report());
  tidemark::write_all(folder / "hostile", tidemark::hostile_report());
  tidemark::write_all(folder / "empty", {});
  if (argc == 3) {
    tidemark::write_files(folder / "huge",
                          {{"report.html", tidemark::html(tidemark::huge_report())}});
  }
  return 0;
} catch (const std::exception& e) {
  std::fprintf(stderr, "error: %s\n", e.what());
  return 2;
}
