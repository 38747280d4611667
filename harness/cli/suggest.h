// Parsing of a command line, with a suggestion for a misspelt command or option.
#pragma once

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace tidemark {

/// Parses the line; returns -1, or the exit code where it was answered already (help, version).
/// Throws UsageError.
int parse_line(CLI::App& app, int argc, char** argv);

/// "did you mean --ranks?" for the first word of `words` (the command line without the program's
/// name) that names no command or option of `app`; empty where there is none, or nothing is close.
std::string suggestion(const CLI::App& app, const std::vector<std::string>& words);

/// The one of `names` that `word` most likely stands for: one that begins with it, or the nearest
/// by letters changed, added, left out or swapped; empty where none is near.
std::string nearest(const std::string& word, const std::vector<std::string>& names);

}  // namespace tidemark
