// Memory over time for chrome://tracing and Perfetto, and losses as plain lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harness/record/growing_text.h"
#include "harness/record/record.h"

namespace tidemark {

/// Chrome trace events of one variant, JSON: a process a rank, its counters in bytes, its phases as
/// slices; `ts` in us of the device's clock.
std::string chrome_trace(const VariantRecord& variant);

/// "step loss" a line, the loss as Python's repr() writes it; empty where there is no number.
std::string loss_lines(const VariantRecord& variant);

}  // namespace tidemark
