// The picture of two curves.
#pragma once

#include <string>

#include "reports/curves/parity.h"

namespace tidemark {

/// Data of page/curves.js, as JSON: both curves, the band of noise around A, the mean of B - A over
/// each window and where B first differs. The comparison has kept its steps.
std::string curves_picture(const CurveParity& curve);

}  // namespace tidemark
