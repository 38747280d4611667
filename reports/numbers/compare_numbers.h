// Comparison of the numbers of two machines, above all of a virtual GPU with a real one.
#pragma once

#include <string>
#include <vector>

#include "reports/numbers/numbers.h"

namespace tidemark {

/// A variant of a trial over its ranks.
struct VariantComparison {
  std::string name;     // trial/schedule/variant
  std::string summary;  // in a line
  std::vector<std::string> faults;
};
struct NumbersComparison {
  std::vector<VariantComparison> variants;
  int equal = 0, within = 0, different = 0;  // variants
  std::vector<std::string> skipped;          // "trial/schedule/variant: why"
  std::vector<std::string> alone;            // in one of the two only, by rank
  std::vector<std::string> models;           // what the bounds are, and why; a line a trial
  int exit_code() const;                     // 0, 1 with a difference, 4 where nothing was compared
  std::string text(const std::string& first, const std::string& second) const;
};

/// Pairs are those of compare_events. Where both sides say that they computed by the same
/// arithmetic and that this is exact, every bit must be the same. Elsewhere two sums of the same
/// terms may have been added up in another order: then what each side is allowed against the
/// reference bounds their difference (difference.h). A control is skipped there, since nothing
/// bounds a wrong fix.
NumbersComparison compare_numbers(const std::vector<NumbersLog>& first,
                                  const std::vector<NumbersLog>& second);

}  // namespace tidemark
