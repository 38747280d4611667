// Result of `tidemark fit` for the terminal.
#pragma once

#include <string>
#include <vector>

#include "harness/record/fit.h"

namespace tidemark {

/// "ac full, tp 2"
std::string values_text(const FitValues& values);

/// The part that grows most from one run to another, as "activations, forward train.py:54"; of the
/// second alone where `from` is nullptr. Empty where nothing is known of what is alive.
std::string grown_most(const FitRun* from, const FitRun& to);

/// The three largest kinds of memory alive at the peak: "activations 47 %, gradients 20 %, ...".
std::string kinds_text(const FitRun& run);

/// A line for each GPU: the largest value, its peak, and what the next one needs.
std::string answer_lines(const FitRecord& record);

/// All GPUs in a line: "batch 9 on t4-16g, 55 on h100-80g; nothing on l4-24g".
std::string short_answer(const FitRecord& record);

/// The table, a row for each combination and GPU. The first row is the header.
std::vector<std::vector<std::string>> fit_rows(const FitRecord& record);

/// The lines, the table and the notes.
std::string fit_text(const FitRecord& record);

}  // namespace tidemark
