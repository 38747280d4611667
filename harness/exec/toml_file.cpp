#include "harness/exec/toml_file.h"

#include <fmt/format.h>

#include "harness/errors.h"
#include "harness/record/file.h"

namespace tidemark {

toml::table read_toml(const std::filesystem::path& file) {
  try {
    return toml::parse(read_bytes(file, "", kMostToml), file.string());
  } catch (const toml::parse_error& error) {
    throw UsageError(fmt::format("{}: line {} is not TOML: {}", file.string(),
                                 error.source().begin.line, error.description()));
  } catch (const std::runtime_error& error) {
    throw UsageError(error.what());
  }
}

}  // namespace tidemark
