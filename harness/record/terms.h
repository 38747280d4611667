// A formula of bytes as a sum of named amounts, each with its kinds of memory: what a saving is
// made of.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/record/formula.h"
#include "harness/record/record.h"

namespace tidemark {

struct Term {
  const Symbol* symbol;
  double times = 0;  // the amount; less than 0: it is taken away
  double bytes = 0;  // of all of them
};

/// The terms of a formula, in the order of `symbols`, without those that cancel. A symbol that has
/// kinds is an amount of bytes; its name may be followed by '_' and a variant's, where two variants
/// have amounts of their own (judge/saving.cpp), which become one term. None where the terms do not
/// sum to the formula's value, since it is not linear in them, or has none.
std::optional<std::vector<Term>> terms_of(const Formula& formula,
                                          const std::vector<Symbol>& symbols);

}  // namespace tidemark
