// A closed form as text with named values, evaluated from that text: what a report prints is what
// was computed.
#pragma once

#include <map>
#include <string>

namespace tidemark {

/// The language of formulas in Python's package too (python/tidemark/formula.py): operators + - * /
/// ^ (or **), comparison, `a if c else b` (or `c ? a : b`), min(), max(), ceil(), floor(), and
/// block(n): n bytes rounded up to the caching allocator's 512-byte granule (0 stays 0), roundup(n,
/// granule). Values are exact up to 2^53.
struct Formula {
  std::string text;
  std::map<std::string, double> values;
  /// Throws std::invalid_argument naming the formula and what is wrong with it.
  double evaluate() const;
};

/// The formula with those of its values alone that its text uses.
Formula only_used(const Formula& formula);

}  // namespace tidemark
