#include "harness/cli/tests.h"

#include <fmt/format.h>

#include <algorithm>
#include <stdexcept>

#include "harness/record/file.h"
#include "harness/record/json_reader.h"
#include "harness/record/lock.h"
#include "reports/write.h"

namespace tidemark {
namespace {

/// The lines are {"trial": of a test} and {"run": as it is known then}; the last "run" holds.
Report report_in(const std::filesystem::path& tests) {
  const std::string lines = read_bytes(tests), where = tests.string();
  Report report;
  report.trials.reserve(static_cast<std::size_t>(std::ranges::count(lines, '\n')));
  std::size_t begin = 0, end = 0;
  // What is cut off is left out: lines end with a line feed.
  for (int number = 1; (end = lines.find('\n', begin)) != std::string::npos; begin = end + 1) {
    const std::string_view line(lines.data() + begin, end - begin);
    const std::string place = fmt::format("{}: line {}", where, number++);
    const auto json = json_of_others(line, place);
    if (!json) throw std::runtime_error(place + ": is not JSON: the file was changed");
    const Node node(json->root(), place);
    if (node.has("trial"))
      JsonReader::read(node["trial"], report.trials.emplace_back());
    else
      JsonReader::read(node["run"], report.run = {});
  }
  return report;
}

}  // namespace

void finish_tests(const std::filesystem::path& folder) {
  const std::filesystem::path tests = folder / kTests;
  if (!std::filesystem::exists(tests)) return;
  if (is_locked(tests))
    throw std::runtime_error(folder.string() + ": this pytest is still running: wait for its end");
  if (!std::filesystem::exists(folder / "report.json")) write_all(folder, report_in(tests));
  std::filesystem::remove(tests);
}

}  // namespace tidemark
