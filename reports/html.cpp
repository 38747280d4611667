#include "reports/html.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "reports/json.h"
#include "reports/overview.h"

namespace tidemark {

extern const std::string_view kPage;  // from page/, by embed.py

std::string script_safe(std::string_view json) {
  std::string out;
  out.reserve(json.size());
  for (char c : json) {
    // All three occur in JSON's strings only, where the escape means the same.
    if (c == '<' || c == '>' || c == '&') {
      out += fmt::format("\\u{:04x}", static_cast<int>(c));
    } else {
      out += c;
    }
  }
  return out;
}

std::string html(const Report& report) {
  nlohmann::ordered_json data{{"report", to_json(report)},
                              {"commands", nlohmann::ordered_json::array()}};
  for (const TrialRecord& trial : report.trials) data["commands"].push_back(command(report, trial));
  constexpr std::string_view kHole = "@DATA@";
  std::string page(kPage);
  const auto hole = page.find(kHole);
  if (hole == std::string::npos)
    throw std::logic_error("page/index.html has no " + std::string(kHole));
  using Handler = nlohmann::ordered_json::error_handler_t;
  return page.replace(hole, kHole.size(), script_safe(data.dump(-1, ' ', false, Handler::replace)));
}

}  // namespace tidemark
