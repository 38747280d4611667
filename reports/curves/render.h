// Texts that all renderings of a comparison of curves share.
#pragma once

#include <string>
#include <vector>

#include "reports/curves/parity.h"

namespace tidemark {

/// Shortest decimal that reads back as the same number, of the precision compared.
std::string value_text(double value, Precision precision);
/// The verdict first, then how it was found and what differs.
std::vector<std::string> parity_lines(const CurveParity& curve, const ParityRule& rule);
/// The files, and what their readers have left out.
std::vector<std::string> side_lines(const ParityReport& report);
std::string rule_text(const ParityRule& rule);

}  // namespace tidemark
