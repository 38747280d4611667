#include "harness/cli/repetition.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/device/platform.h"
#include "harness/measure/timing.h"
#include "harness/record/json.h"

namespace tidemark {
namespace {

// Both sides of the first place where they differ, with what stands before it.
std::string first_difference(const std::string& a, const std::string& b) {
  constexpr std::size_t kBefore = 60, kLength = 100;
  const auto at = static_cast<std::size_t>(std::ranges::mismatch(a, b).in1 - a.begin());
  const std::size_t from = at - std::min(at, kBefore);
  return fmt::format("{} against {}", b.substr(from, kLength), a.substr(from, kLength));
}

}  // namespace

TrialRecord run_repeated(const PlannedTrial& planned, World& world, int repetitions,
                         const RunOptions& options) {
  auto record = run_trial(*planned.scenario, planned.trial, world, options);
  const bool repeats = virtual_device() != nullptr || platform().keeps_time();
  const std::string first = repetitions > 1 ? json_text(record) : "";  // before this adds to it
  std::vector<StepTimes> times{step_times(record)};
  RunOptions repeated = options;
  repeated.numbers = nullptr;  // the first run's are written
  for (int again = 1; repeats && again < repetitions; ++again) {
    auto other = run_trial(*planned.scenario, planned.trial, world, repeated);
    if (!world.leads()) continue;
    times.push_back(step_times(other));
    if (virtual_device() == nullptr) continue;
    Verdict verdict{
        .name = "parity/repetition", .variant = "all", .status = Status::pass, .unit = "reports"};
    verdict.formula = "a repeated trial leaves the same record, byte for byte";
    if (const std::string text = json_text(other); text != first) {
      verdict.status = Status::fail;
      verdict.why = fmt::format("repetition {} differs from the first run, in {}", again + 1,
                                first_difference(first, text));
    }
    record.verdicts.push_back(verdict);
  }
  if (virtual_device() == nullptr) add_timing(record, times);
  return record;
}

}  // namespace tidemark
