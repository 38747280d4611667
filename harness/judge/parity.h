// Comparison of two variants' numbers: bits first; where they differ, the first place and the
// distance.
#pragma once

#include <cstdint>
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
  /// Of the tensor (of losses: the step) where it is the largest in parts of what is allowed there:
  /// |a - b| / |b|, Euclidean norms; of a shard's b, where the other side has the whole tensor, at
  /// least the part of its norm that as many elements have in the mean.
  double relative = 0;
  double allowed = 0;         // there
  std::string worst;          // which tensor or step that was
  std::int64_t compared = 0;  // losses or elements
};

/// Differences that are allowed: of the loss by step, of shards by the tensor of `b`. Without any,
/// the largest relative difference is the worst.
struct Allowed {
  std::vector<double> tolerance = {};
  /// In what parts each element's difference is measured; a tensor each, or none.
  const std::vector<Shard>* scales = nullptr;
};

Difference compare_losses(const std::vector<LossPoint>& a, const std::vector<LossPoint>& b,
                          const Allowed& allowed = {});
/// Shards of `a` against the same elements of `b`, which may be whole tensors of another type (the
/// reference's). Zeros are equal whatever their signs: a gradient that is added to a buffer of
/// zeros is +0 where the same gradient by itself is -0, and nothing that is computed from it
/// differs.
Difference compare_shards(const std::string& what, const std::vector<Shard>& a,
                          const std::vector<Shard>& b, const Allowed& allowed = {});
/// The first of these shards that `all` lacks, or null.
const Shard* missing_from(const std::vector<Shard>& all, const std::vector<Shard>& shards);
std::int64_t elements_of(const std::vector<Shard>& shards);

/// Representable float64/float32/bfloat16/float16 numbers between a and b (of type `type`); 0 where
/// equal, -0 = +0.
double ulp_distance(double a, double b, at::ScalarType type);

}  // namespace tidemark
