// The answer with which the page of a program begins: its peak, and whether it fits.
#pragma once

#include <string>
#include <vector>

#include "harness/memory/highest_peak.h"
#include "harness/record/record.h"

namespace tidemark {

/// Sentences: the highest peak of active memory with its rank, step, phase and line; what it is
/// made of; what the GPU has left, or how much more an allocation that failed needs at least; and
/// the statistic of all figures.
std::vector<std::string> answer(const Report& report, const std::vector<HighestPeak>& peaks);

}  // namespace tidemark
