#include <fmt/format.h>

#include "harness/cli/commands.h"
#include "reports/write.h"

namespace tidemark {

int report_command(const Options& options) {
  try {
    rerender(options.folder);
  } catch (const std::runtime_error& error) {
    throw UsageError(error.what());
  }
  fmt::print("{}/report.html\n", options.folder);
  return 0;
}

}  // namespace tidemark
