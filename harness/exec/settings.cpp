#include "harness/exec/settings.h"

#include <cstdlib>
#include <nlohmann/json.hpp>

#include "harness/errors.h"

namespace tidemark {
namespace {

constexpr const char* kSettings = "TIDEMARK_EXEC_SETTINGS";

}  // namespace

NLOHMANN_DEFINE_TYPE_NON_INTRUSIVE_WITH_DEFAULT(ExecSettings, layer, torch, history, alone, present,
                                                partners, changes, changed, steady, steady_ends,
                                                cause, serves, server)

ExecSettings ExecSettings::given() {
  const char* text = std::getenv(kSettings);
  if (text == nullptr || *text == 0) return {};
  try {
    return nlohmann::json::parse(text).get<ExecSettings>();
  } catch (const nlohmann::json::exception&) {
    throw UsageError(std::string("exec: ") + kSettings +
                     " is not what tidemark has written: unset it");
  }
}

std::pair<std::string, std::string> ExecSettings::variable() const {
  return {kSettings,
          nlohmann::json(*this).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace)};
}

}  // namespace tidemark
