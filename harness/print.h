// The door of all that tidemark prints (ci/structure): what a terminal would obey stays behind it.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "harness/record/one_line.h"

namespace tidemark {

inline void print_text(std::FILE* to, std::string_view text) {
  const std::string safe = printable(text);
  std::fwrite(safe.data(), 1, safe.size(), to);
}

/// As fmt::print, but an output that cannot be written (its reader has ended) is no error: the
/// report is what counts, and the command says at its end that its output is not whole.
template <class... Values>
void print(std::FILE* to, fmt::format_string<Values...> format, Values&&... values) {
  print_text(to, fmt::format(format, std::forward<Values>(values)...));
}

/// The same over the line that is there: of progress in a terminal.
template <class... Values>
void print_over(std::FILE* to, fmt::format_string<Values...> format, Values&&... values) {
  std::fputs("\r\033[K", to);
  print_text(to, fmt::format(format, std::forward<Values>(values)...));
}

/// One line on stderr: what is wrong, where, and what to do.
inline void print_error(std::string_view what) { print(stderr, "error: {}\n", one_line(what)); }

}  // namespace tidemark
