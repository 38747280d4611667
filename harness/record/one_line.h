// Foreign text, made safe for a terminal, a table or a shell.
#pragma once

#include <string>
#include <string_view>

namespace tidemark {

/// Control characters (line breaks too) become spaces, bytes that are not UTF-8 become '?'.
std::string one_line(std::string_view text);

/// The same, but line breaks stay, and colours (reports/paint.h): of a text of several lines, whose
/// cells are one_line already.
std::string printable(std::string_view text);

/// One word of a POSIX shell, in quotes where it needs them.
std::string shell_word(const std::string& word);

}  // namespace tidemark
