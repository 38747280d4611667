// Memory over time for chrome://tracing and Perfetto, and losses as plain lines.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harness/record/record.h"

namespace tidemark {

/// Chrome trace events of one variant, JSON: a process a rank, its counters in bytes, its phases as
/// slices; `ts` in us of the device's clock.
std::string chrome_trace(const VariantRecord& variant);

/// "step loss" a line, the loss as Python's repr() writes it; empty where there is no number.
std::string loss_lines(const VariantRecord& variant);

/// The bytes as a gzip file; the same bytes give the same file.
std::string gzip(const std::string& bytes);
/// Empty where it is not a gzip file, or cut off. Stops once there are more than `most` bytes.
std::optional<std::string> gunzip(std::string_view packed, std::size_t most = SIZE_MAX);

/// The text in quotes, as JSON in ASCII.
std::string json_quoted(const std::string& text);

}  // namespace tidemark
