#include "harness/cli/deliver.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>

#include "harness/cli/files.h"
#include "harness/cli/github.h"
#include "harness/cli/terminal.h"
#include "reports/renderings.h"
#include "reports/write.h"

namespace tidemark {
namespace {

namespace fs = std::filesystem;

// Makes (or moves) a link beside the folder. A convenience: where it cannot be made it is left out.
void link(const fs::path& folder, const std::string& name) {
  std::error_code ignored;
  const fs::path link = folder.parent_path() / name,
                 fresh = folder.parent_path() / ("." + name + ".new");
  if (fs::exists(fs::symlink_status(link, ignored)) && !fs::is_symlink(link, ignored)) return;
  fs::remove(fresh, ignored);
  fs::create_directory_symlink(folder.filename(), fresh, ignored);
  fs::rename(fresh, link, ignored);
}

bool under_faults() {
  const char* faults = std::getenv("TIDEMARK_FAULT");
  return faults != nullptr && *faults != 0;
}

}  // namespace

int deliver(const Report& report, const fs::path& folder, const Options& options) {
  std::string trouble;
  try {
    write_all(folder, report);
    link(folder, "latest");
    if (report.complete() && report.exit_code() == 0) link(folder, "latest-good");
    if (options.history && !under_faults()) remember(folder, report);
  } catch (const std::runtime_error& error) {
    trouble = error.what();
  }
  fmt::print("{}", text_of(report, in_color(options.color)));
  if (trouble.empty()) fmt::print("report: {}\n", fs::relative(folder / "report.html").string());
  tell_github(report);
  std::fflush(stdout);
  if (trouble.empty()) return report.exit_code();
  fmt::print(stderr, "error: {}\n", trouble);
  return 3;
}

}  // namespace tidemark
