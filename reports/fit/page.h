// Page of `tidemark fit`.
#pragma once

#include <string>

#include "harness/record/fit.h"

namespace tidemark {

/// Answers, peaks over the searched value with the capacities of all GPUs, how much of each GPU two
/// variables take, what is alive at the peak of each combination, the table, the notes.
std::string fit_page(const FitRecord& record);

}  // namespace tidemark
