// Files of gzip, and bytes as texts.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "harness/record/growing_text.h"

namespace tidemark {

/// The bytes as a gzip file; the same bytes give the same file.
std::string gzip(const std::string& bytes);
std::string gzip(const TextMaker& text);
/// Empty where it is not a gzip file, or cut off. Stops once there are more than `most` bytes.
std::optional<std::string> gunzip(std::string_view packed, std::size_t most = SIZE_MAX);

/// The bytes as base64.
std::string base64(std::string_view bytes);

/// Bytes as a text: base64 of gzip.
std::string packed_bytes(const std::string& bytes);
/// Empty where it is not such a text, or is cut off.
std::optional<std::string> unpacked_bytes(std::string_view text);

}  // namespace tidemark
