// Errors of the step times that a GPU profile predicts: those of a run on the virtual device
// (schedule calibrated) beside those of the same trials on a GPU (its own time, with repetitions).
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/record/record.h"

namespace tidemark {

struct StepPrediction {
  std::string variant;
  bool baseline = false;
  Ns predicted = 0;  // median of all steps but the first, as the measured one
  Timing measured;
  /// To the baseline of the same trial, which is what users ask for; none of the baseline itself.
  std::optional<double> predicted_ratio, measured_ratio;
  double ratio() const;  // predicted / measured
};
struct TrialPrediction {
  std::string trial;  // scenario/size/rN/mode
  std::vector<StepPrediction> steps;
};

/// exp |ln(predicted / measured)|: 2 where one is twice the other, whichever.
struct TimesOff {
  int count = 0;
  double median = 1, largest = 1;
  std::string worst;  // "trial variant"
};

struct Prediction {
  std::vector<TrialPrediction> trials;
  TimesOff steps, ratios;
  std::vector<std::string> unpaired;  // "trial variant": measured, but not predicted
  std::vector<std::string> notes;     // what the figures must be read with
  int exit_code() const { return steps.count > 0 ? 0 : 4; }
};

/// Trials pair where scenario, size, ranks, mode, steps, seed and parameters are the same; baseline
/// and fixed variants count, controls do not. Throws std::runtime_error, in one line, where
/// `predicted` was not run on the virtual device or `measured` was.
Prediction predict(const Report& predicted, const Report& measured);

/// `predicted` and `measured`: the files' names, with their reports for what ran where.
std::string prediction_text(const Prediction& prediction, const Report& predicted,
                            const Report& measured);
std::string prediction_json(const Prediction& prediction, const Report& predicted,
                            const Report& measured);
/// One line: "14 step times off by 1.2 times (median), 1.9 at most; 9 ratios to baseline by 1.02,
/// 1.1".
std::string prediction_summary(const Prediction& prediction);

}  // namespace tidemark
