#include "harness/exec/cause.h"

#include <unistd.h>

#include <nlohmann/json.hpp>

#include "harness/errors.h"
#include "harness/exec/settings.h"
#include "harness/record/file.h"
#include "harness/virtual/device/new_file.h"

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
  const int file = create_first(cause_file().c_str());
  if (file < 0) return;
  const json fields{{"code", cause.code}, {"process", cause.process}, {"text", cause.text}};
  const std::string text = fields.dump(-1, ' ', false, json::error_handler_t::replace);
  [[maybe_unused]] const auto written = write(file, text.data(), text.size());
  close(file);
}

std::optional<Cause> read_cause(const std::filesystem::path& file) {
  const json fields = json::parse(first_bytes(file, 1 << 20), nullptr, /*allow_exceptions=*/false);
  if (!fields.is_object()) return {};
  try {
    return Cause{fields.value("code", 0), fields.value("process", ""), fields.value("text", "")};
  } catch (const json::exception&) {  // a field of another type
    return {};
  }
}

}  // namespace tidemark
