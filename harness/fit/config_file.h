// Configuration files in TOML and JSON: a copy with other values, and fit.toml itself.
#pragma once

#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace tidemark {

/// Throws UsageError in one line if the file cannot be read or has no such key ("a.b.c").
void check_config_file(const std::filesystem::path& file, const std::string& key);

/// Writes the file with these values at these keys; a value has the type of the one before.
/// Throws UsageError if it cannot have it.
void write_config_file(const std::filesystem::path& file,
                       const std::map<std::string, std::string>& values,
                       const std::filesystem::path& to);

/// The words of a command line that a TOML file stands for: `vary` is a table of NAME = "1..64" or
/// a list, `gpu` and `as-rank` are a text or a list, `command` is a text or a list of words and
/// comes last. Every other key is a flag with a text, a number or true. Throws UsageError.
std::vector<std::string> words_of_config(const std::filesystem::path& file);

}  // namespace tidemark
