// Numbers as programs print them: decimal, hexadecimal (0x1.8p+1), nan, inf.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace tidemark {

/// The whole of `text`, or none. A decimal that no double can hold is none.
std::optional<double> parse_number(std::string_view text);
/// A whole number, also as 12.0; none for all else.
std::optional<std::int64_t> parse_step(std::string_view text);
std::optional<std::int64_t> whole(double value);

}  // namespace tidemark
