// A formula without what cancels in it.
#pragma once

#include "harness/record/formula.h"

namespace tidemark {

/// The same formula as a sum, without what cancels, with one summand for each last factor of its
/// products in the order of the text: "(2*U + i*x) - (U + (i - 1)*x)" is "U + x". Products of sums
/// are written out where that is shorter. What is neither a sum nor a product (a call, a condition,
/// a power, a quotient) is a factor as it stands. The formula itself where that is no longer, where
/// it is no expression, or where it has more than 2,000 products.
Formula reduced(const Formula& formula);

}  // namespace tidemark
