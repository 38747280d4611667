// A small training in bf16 whose reductions add in one order or another: two of them are the same
// training but for rounding.
#pragma once

#include <cstdint>

#include "reports/curves/curve.h"

namespace tidemark {

enum class Order { forward, pairwise };
struct Training {
  std::uint64_t seed = 0;
  int steps = 100;
  Order order = Order::forward;
};

/// The losses, as fp32 values: logistic regression of two layers by SGD, weights, activations and
/// gradients rounded to bf16 after sums in fp32.
Curve trained(const Training& training);

}  // namespace tidemark
