// A closed form as text with named values, evaluated from that text: what a report prints is what
// was computed.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

namespace tidemark {

/// The one language of formulas, for scenarios and for tests in Python: operators + - * / ^ (or
/// **), one comparison, `a if c else b` (or `c ? a : b`), min(), max(), ceil(), floor(), block(n):
/// n bytes rounded up to the caching allocator's 512-byte granule (0 stays 0), and roundup(n,
/// granule). Computed in exact fractions of 127 bits.
struct Formula {
  std::string text;
  std::map<std::string, double> values;
  /// Throws std::invalid_argument naming the formula and what is wrong with it.
  double evaluate() const;
  /// The summands of the outermost sum, each with its value. Throws like evaluate().
  std::vector<std::pair<std::string, double>> terms() const;
};

/// The formula with those of its values alone that its text uses.
Formula only_used(const Formula& formula);

}  // namespace tidemark
