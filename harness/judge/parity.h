// Comparison of two variants' numbers: bits first; where they differ, the first place and the
// distance.
#pragma once

#include <string>
#include <vector>

#include "harness/record/record.h"
#include "harness/scenario.h"

namespace tidemark {

/// The numbers of one variant on one rank, on the CPU.
struct Numbers {
  std::vector<LossPoint> loss;
  std::vector<Shard> gradients;   // step 0
  std::vector<Shard> parameters;  // at the end
};

/// The shard that has all elements of `part`, or null.
const Shard* covering(const std::vector<Shard>& all, const Shard& part);
/// The elements of `part`, in `whole`, which covers it: flat.
at::Tensor elements(const Shard& whole, const Shard& part);
/// Compares contiguous tensors of as many elements.
bool same_bits(const at::Tensor& a, const at::Tensor& b);

struct Difference {
  bool equal = true;
  std::string where;  // "loss at step 1", "gradient of mlps.0.fc1.weight [element 17]"
  double ulps = 0;    // there: distance in units of the last place of the coarser of the two types
  /// Largest over all tensors: |a - b| / |b|, Euclidean norms; of a shard's b, where the other side
  /// has the whole tensor, at least the part of its norm that as many elements have in the mean.
  /// For losses the largest point.
  double relative = 0;
  std::string worst;  // which tensor or step that was
};

Difference compare_losses(const std::vector<LossPoint>& a, const std::vector<LossPoint>& b);
/// Shards of `a` against the same elements of `b`, which may be whole tensors of another type (the
/// reference's).
Difference compare_shards(const std::string& what, const std::vector<Shard>& a,
                          const std::vector<Shard>& b);

/// Representable float64/float32/bfloat16/float16 numbers between a and b (of type `type`); 0 where
/// equal, -0 = +0.
double ulp_distance(double a, double b, at::ScalarType type);

}  // namespace tidemark
