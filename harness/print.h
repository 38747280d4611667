// Printing of a run, on the way to its report.
#pragma once

#include <fmt/format.h>

#include <cstdio>
#include <string>
#include <utility>

namespace tidemark {

/// As fmt::print, but an output that cannot be written (its reader has ended) is no error: the
/// report is what counts, and the command says at its end that its output is not whole.
template <class... Values>
void print(std::FILE* to, fmt::format_string<Values...> format, Values&&... values) {
  const std::string text = fmt::format(format, std::forward<Values>(values)...);
  std::fwrite(text.data(), 1, text.size(), to);
}

}  // namespace tidemark
