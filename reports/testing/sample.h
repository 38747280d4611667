// Reports made up for tests: no run is needed to test what renders them.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include "harness/record/record.h"

namespace tidemark {

constexpr Bytes kMiB = 1 << 20;

/// Two variants, two schedules, one failed verdict, one skipped trial: small enough to read its
/// renderings whole.
Report small_report();
/// A pytest run: five tests, of which one is over its limit and one ended in error.
Report tests_report();

/// That report with the parts that only a real GPU's has: step times over repetitions, memory
/// outside the allocator, a GPU that ranks share, a variant that was not held back.
Report gpu_report();

/// A run that a killed rank has ended in its second trial, with a baseline that does not fit its
/// GPU.
Report cut_report();

/// The size of a real run: eight variants, four ranks, three schedules, timelines, losses, a
/// run-ahead curve, records of memory under lagging. `layers` scales everything.
Report sample_report(int layers = 8);

/// More than a night: 24 trials, 64 timelines each, a million samples that do not compress, 100,000
/// assertions.
Report huge_report();

/// Samples at random, ascending in time.
std::vector<Sample> noise(std::size_t n, unsigned seed);

/// Names that try to break out of whatever they are written into.
Report hostile_report();

/// Every field of a report as JSON (run, trials, programs), each with a figure or text of its own;
/// and the report that is read from it.
nlohmann::ordered_json filled_json();
Report filled_report();

/// The first difference of two long texts, or empty: a test's own comparison of megabytes would
/// take gigabytes to print.
std::string first_difference(const std::string& a, const std::string& b);

/// The data that a report's page carries. Throws std::runtime_error where it holds none that can be
/// unpacked.
nlohmann::ordered_json unpacked_page_data(const std::string& page);

/// A folder of this test alone, empty, removed at the end.
class ScratchFolder {
 public:
  ScratchFolder();
  ~ScratchFolder();
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace tidemark
