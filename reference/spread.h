// How far a variant's numbers may be from the reference's: as far as those of trainings with random
// rounding errors are, with a margin.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/noise.h"
#include "reference/training.h"

namespace tidemark::reference {

/// Largest relative errors, Euclidean norms of whole tensors.
struct Spread {
  std::vector<double> loss;       // by step
  std::vector<double> gradients;  // by tensor, of step 0
  /// By tensor, each element in parts of Trained::scales; in bf16 at least the mean of all tensors.
  std::vector<double> parameters;
  std::vector<double> plain;  // parameters without their scales
};

/// Trainings with errors that are compared with the exact one.
inline constexpr int kDraws = 3;
/// Tolerances are so many times the root of the mean square of what the draws are off by; that of
/// the loss has Precision::reported besides.
inline constexpr double kMargin = 6;

/// `train` runs the training with these errors; `exact` is its result without any.
Spread spread_of(const Trained& exact, const Precision& precision,
                 const std::function<Trained(Noise)>& train);

}  // namespace tidemark::reference
