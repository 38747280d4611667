#include "harness/exec/toml_file.h"

#include <fmt/format.h>

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "harness/errors.h"
#include "harness/record/file.h"

namespace tidemark {

namespace {

struct Refused {};  // by an assertion of the parser

/// TOML has no control characters but tabs and the ends of lines, in comments neither. The parser
/// relies on it, and what it makes of a key of many parts goes down by recursion.
void refuse_what_parsers_trust(std::string_view text, const std::filesystem::path& file) {
  constexpr int kParts = 1000;  // of one key
  std::int64_t line = 1;
  int dots = 0;
  for (const unsigned char c : text) {
    if ((c < 0x20 && c != '\t' && c != '\n' && c != '\r') || c == 0x7f)
      throw UsageError(fmt::format("{}: line {} is not TOML: it has the control character 0x{:02x}",
                                   file.string(), line, c));
    if (c == '.' && ++dots > kParts)
      throw UsageError(
          fmt::format("{}: line {} has a key of more than 1,000 parts", file.string(), line));
    if (c == '\n' || c == '=' || c == ',' || c == '{') dots = 0;
    if (c == '\n') ++line;
  }
}

}  // namespace

void refuse_toml() { throw Refused{}; }

toml::table read_toml(const std::filesystem::path& file) {
  try {
    const std::string text = read_bytes(file, "", kMostToml);
    refuse_what_parsers_trust(text, file);
    return toml::parse(text, file.string());
  } catch (const Refused&) {
    throw UsageError(file.string() + ": is not TOML");
  } catch (const toml::parse_error& error) {
    throw UsageError(fmt::format("{}: line {} is not TOML: {}", file.string(),
                                 error.source().begin.line, error.description()));
  } catch (const std::runtime_error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace tidemark
