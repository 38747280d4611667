// Mutants of a form: the same text with one thing wrong.
#pragma once

#include <string>
#include <vector>

#include "harness/record/formula.h"

namespace tidemark::testing {

struct Mutant {
  std::string what;  // "3 -> 4 in ..."
  Formula formula;
};

/// Every number and every symbol of the text in turn: a number one more and one less; a symbol
/// counted once more, dropped, and replaced by each other symbol of the formula. Mutants whose
/// value is the formula's are left out; `equal` counts them.
std::vector<Mutant> mutants(const Formula& formula, int& equal);

}  // namespace tidemark::testing
