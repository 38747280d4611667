// Peaks against one size parameter: the line of the closed forms, and points measured on it.
#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "harness/record/record.h"
#include "harness/scenario.h"

namespace tidemark {

/// The point at which a curve starts: the peaks that a rank of the trial measured in its last step.
struct Origin {
  int rank = 0;
  Peaks peaks;
};
/// The peaks of the phases that have a closed form.
Peaks measured_peaks(const RankRecord& record, const std::vector<Expectation>& forms);

struct GrowthResult {
  Growth curve;                    // fewer than two points: there is none
  std::optional<Verdict> verdict;  // memory/growth/<parameter>: the closed forms hold there too
};

/// A variant's peaks on one rank with `parameter` from half to twice the trial's value, in quarters
/// of an octave, where that fits. The lowest and the highest that a device of `capacity` bytes can
/// hold are measured, in shapes; of a trial of more than four steps the first two, and then there
/// is no curve where the last one differs from the second.
GrowthResult grow(const Scenario& scenario, const Trial& trial, const Variant& variant,
                  const Parameter& parameter, const Origin& own, Bytes capacity,
                  const std::function<RankRecord(const Trial&)>& measure);

}  // namespace tidemark
