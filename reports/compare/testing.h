// Helpers of the tests of compare.
#pragma once

#include "reports/compare/compare.h"

namespace tidemark {

inline Comparison held(const Report& base, const Report& fresh,
                       const std::vector<std::string>& given = {}, bool allow_missing = false) {
  CompareOptions options{{}, allow_missing};
  for (const std::string& text : given) options.thresholds.push_back(parse_threshold(text));
  return compare(base, fresh, options);
}

}  // namespace tidemark
