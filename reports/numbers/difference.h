// How far the numbers of two machines are from each other on one rank, tensor by tensor.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "reports/numbers/numbers.h"

namespace tidemark {

/// What two machines may differ by that are each within a tolerance of the same reference R:
/// |A - R| <= a |R| and |B - R| <= b |R| give |A - B| <= (a + b) |R| (triangle inequality), and |R|
/// is at most |A| / (1 - a) and at most |B| / (1 - b). So of the smaller of |A| and |B| this much:
/// (a + b) / (1 - max(a, b)); infinite where a tolerance is 1 or more.
double bound_of(double a, double b);

/// From this bound on twice the numbers, or none at all, could pass: it is held against nothing.
inline constexpr double kSaysNothing = 1;

struct TensorDifference {
  std::string what;  // "gradients of mlps.0.fc1.weight", "loss"
  int rank = 0;
  bool bits = true;         // whether these are the same
  std::string unlike;       // why its elements cannot be held against each other; empty: they can
  double distance = 0;      // |A - B| / min(|A|, |B|); of losses the largest of a step
  double bound = 0;         // of the model
  std::int64_t differ = 0;  // elements with other bits
  /// Where |A - B| is largest, counted from the parameter's first element (of losses: the step):
  /// both values and their distance.
  std::int64_t element = -1;
  double a = 0, b = 0, ulps = 0;
  std::string dtype;
  std::int64_t first = -1;  // element (step) that differs

  /// Of numbers that differ, all of them numbers.
  bool says_nothing() const;
  /// Distance in parts of the bound; infinite where something is not a number.
  double share() const;
};

/// Losses, gradients, parameters, in this order and each once. `bits_decide`: what has the same
/// bits on both sides is right even where it is no number.
std::vector<TensorDifference> differences(const NumbersLog& a, const NumbersLog& b,
                                          bool bits_decide);

}  // namespace tidemark
