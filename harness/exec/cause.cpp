#include "harness/exec/cause.h"

#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "harness/exec/settings.h"

namespace tidemark {

using nlohmann::json;

namespace {

std::string cause_file() {
  try {
    return ExecSettings::given().cause;
  } catch (const UsageError&) {
    return "";
  }
}

}  // namespace

void leave_cause(const Cause& cause) {
  std::FILE* out = std::fopen(cause_file().c_str(), "wxe");
  if (out == nullptr) return;
  const json fields{{"code", cause.code}, {"process", cause.process}, {"text", cause.text}};
  std::fputs(fields.dump(-1, ' ', false, json::error_handler_t::replace).c_str(), out);
  std::fclose(out);
}

std::optional<Cause> read_cause(const std::filesystem::path& file) {
  std::ifstream in(file);
  const json fields = json::parse(in, nullptr, /*allow_exceptions=*/false);
  if (!fields.is_object()) return {};
  return Cause{fields.value("code", 0), fields.value("process", ""), fields.value("text", "")};
}

}  // namespace tidemark
