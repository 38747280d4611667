// The noise of one step near each step.
#pragma once

#include <vector>

#include "reports/curves/noise.h"

namespace tidemark {

/// The standard deviation at each step, from the absolute differences of successive values: their
/// median over as many as 32 steps before, and over as many behind; the larger of both, so that
/// steps beside a quiet stretch are not held against it. A lasting difference adds nothing to it.
std::vector<double> step_noise(const std::vector<double>& values);

/// The same from several runs: the root of their variance at each step, averaged likewise.
std::vector<double> run_noise(const std::vector<std::vector<double>>& runs,
                              const std::vector<double>& mean);

/// How far rounding alone can shift a mean of b - a at each step, in one direction: both logs have
/// steps of `resolution`, and A varies by `noise` from step to step (README.md, "Rounding").
double rounding_shift(double resolution, double noise);

}  // namespace tidemark
