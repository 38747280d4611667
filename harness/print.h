// The door of all that tidemark prints (ci/structure): what a terminal would obey stays behind it.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "harness/record/one_line.h"

namespace tidemark {

/// Line by line as far as it can be, so that a long text is there once.
inline void print_text(std::FILE* to, std::string_view text) {
  constexpr std::size_t kPart = 1 << 16;
  while (!text.empty()) {
    const std::size_t end = text.size() > kPart ? text.find('\n', kPart) : text.npos;
    const std::string safe = printable(text.substr(0, end == text.npos ? end : end + 1));
    std::fwrite(safe.data(), 1, safe.size(), to);
    text.remove_prefix(end == text.npos ? text.size() : end + 1);
  }
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
