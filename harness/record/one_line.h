// Foreign text, made safe for a terminal, a table or a shell.
#pragma once

#include <string>

namespace tidemark {

/// Control characters (line breaks too) become spaces, bytes that are not UTF-8 become '?'.
std::string one_line(const std::string& text);

/// One word of a POSIX shell, in quotes where it needs them.
std::string shell_word(const std::string& word);

}  // namespace tidemark
