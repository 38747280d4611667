#include "harness/judge/gradients.h"

#include <ATen/ATen.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "harness/judge/parity.h"
#include "harness/record/join.h"

namespace tidemark {
namespace {

constexpr double kFar = std::numeric_limits<double>::infinity();

struct Compared {
  Distance distance;
  std::int64_t first = -1;
};

Compared compare(const at::Tensor& mine, const at::Tensor& theirs) {
  Compared out;
  const at::Tensor x = mine.to(at::kDouble), y = theirs.to(at::kDouble);
  const double *a = x.const_data_ptr<double>(), *b = y.const_data_ptr<double>();
  double squares = 0, scale = 0;
  for (std::int64_t i = 0; i < x.numel(); ++i) {
    scale += b[i] * b[i];
    if (a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]))) continue;
    if (out.first < 0) out.first = i;
    const double apart = std::abs(a[i] - b[i]);
    squares += apart * apart;
    out.distance.ulps = std::max(out.distance.ulps, ulp_distance(a[i], b[i], mine.scalar_type()));
    // Written so that a NaN counts as infinitely far.
    if (!(apart <= out.distance.absolute)) out.distance.absolute = std::isnan(apart) ? kFar : apart;
  }
  if (squares == 0) return out;
  const double relative =
      std::sqrt(squares) / std::max(std::sqrt(scale), std::numeric_limits<double>::min());
  out.distance.relative = std::isnan(relative) ? kFar : relative;
  return out;
}

}  // namespace

std::vector<GradientError> gradient_errors(const std::vector<Shard>& mine,
                                           const std::vector<Shard>* baseline,
                                           const std::vector<Shard>& reference) {
  std::vector<GradientError> rows;
  for (const Shard& part : mine) {
    GradientError row{part.name, part.values.sizes().vec(), {}, {}, -1};
    const Shard* whole = covering(reference, part);
    if (whole != nullptr) row.shape = whole->values.sizes().vec();
    if (part.values.numel() > 0) {
      const at::Tensor values = part.values.reshape({-1}).contiguous();
      if (const Shard* other = baseline ? covering(*baseline, part) : nullptr) {
        const at::Tensor theirs = elements(*other, part);
        const Compared difference =
            same_bits(values, theirs) ? Compared() : compare(values, theirs);
        row.baseline = difference.distance;
        if (difference.first >= 0) row.first = part.offset + difference.first;
      }
      if (whole != nullptr) row.reference = compare(values, elements(*whole, part)).distance;
    }
    worse(rows, row);
  }
  return rows;
}

}  // namespace tidemark
