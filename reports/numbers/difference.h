// Differences between the numbers of two machines on one rank, tensor by tensor.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "reports/numbers/numbers.h"

namespace tidemark {

/// Largest difference of two machines that are each within a tolerance of the same reference R: |A
/// - R| <= a |R| and |B - R| <= b |R| give |A - B| <= (a + b) |R| (triangle inequality), and |R| is
/// at most |A| / (1 - a) and at most |B| / (1 - b). The bound is therefore (a + b) / (1 - max(a,
/// b)) of the smaller of |A| and |B|; it is infinite if a tolerance is 1 or more. As in
/// parity/reference, |R| of a shard, and so |A| and |B|, is at least the mean part of the whole
/// tensor's norm that as many elements have: the same steps hold for this larger norm.
double bound_of(double a, double b);

/// From this bound on twice the numbers, or none at all, could pass: it is compared with nothing.
inline constexpr double kSaysNothing = 1;

struct TensorDifference {
  std::string what;  // "gradients of mlps.0.fc1.weight", "loss"
  int rank = 0;
  bool bits = true;         // whether these are the same
  std::string unlike;       // why its elements cannot be compared with each other; empty: they can
  double distance = 0;      // |A - B| / min(|A|, |B|), see bound_of; of losses that of a step
  double bound = 0;         // of the model
  std::int64_t differ = 0;  // elements with other bits
  /// The element with the largest |A - B|, counted from the parameter's first element (of losses:
  /// the step), both values and their distance.
  std::int64_t element = -1;
  double a = 0, b = 0, ulps = 0;
  std::string dtype;
  std::int64_t first = -1;  // element (step) that differs

  /// True if the bound is so wide that numbers within it prove nothing.
  bool says_nothing() const;
  /// Distance in parts of the bound; infinite where something is not a number.
  double share() const;
};

/// Euclidean norms of whole tensors, of all their shards on all ranks.
class WholeNorms {
 public:
  void add(const NumbersLog& log);
  /// The mean part of the tensor's norm that this number of elements has; 0 if it is not known.
  double share(const std::string& tensor, std::int64_t elements) const;

 private:
  struct Whole {
    double squares = 0;
    std::int64_t elements = 0;
    std::set<std::int64_t> offsets;  // taken in
  };
  std::map<std::string, Whole> all_;
};

/// Losses, gradients, parameters, in this order and each once. `bits_decide`: what has the same
/// bits on both sides is right even where it is not a number.
std::vector<TensorDifference> differences(const NumbersLog& a, const NumbersLog& b,
                                          bool bits_decide, const WholeNorms& of_a = {},
                                          const WholeNorms& of_b = {});

}  // namespace tidemark
