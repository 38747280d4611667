#include "harness/cli/deliver.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "harness/cli/files.h"
#include "harness/cli/github.h"
#include "harness/print.h"
#include "harness/ranks/leave.h"
#include "harness/ranks/terminal.h"
#include "reports/folder.h"
#include "reports/history/nights_of.h"
#include "reports/renderings.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

bool under_faults() {
  const char* faults = std::getenv("TIDEMARK_FAULT");
  return faults != nullptr && *faults != 0;
}

}  // namespace

int deliver(const Report& report, const fs::path& folder, const Options& options) {
  std::string trouble;
  try {
    write_all(folder, report, nights_beside);
    point_to(folder, "latest");
    if (report.complete() && report.exit_code() == 0) point_to(folder, "latest-good");
    if (options.history && !under_faults()) remember(folder, report);
  } catch (const std::runtime_error& error) {
    trouble = error.what();
  }
  print(stdout, "{}", text_of(report, in_color(options.color)));
  if (trouble.empty()) print(stdout, "report: {}\n", fs::relative(folder / "report.html").string());
  tell_github(report);
  if (trouble.empty()) return with_output(report.exit_code());
  print(stderr, "error: {}\n", trouble);
  return 3;
}

}  // namespace tidemark
