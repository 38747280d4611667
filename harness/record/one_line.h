// Text of others, made safe for a terminal or a table.
#pragma once

#include <string>

namespace tidemark {

/// Control characters (line breaks too) become spaces, bytes that are not UTF-8 become '?'.
std::string one_line(const std::string& text);

}  // namespace tidemark
