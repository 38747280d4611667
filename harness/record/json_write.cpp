#include <nlohmann/json.hpp>

#include "harness/record/json.h"
#include "harness/record/json_writer.h"

namespace tidemark {
namespace {
using Json = nlohmann::ordered_json;
}  // namespace

Json number(double value) {
  if (!std::isfinite(value)) return nullptr;
  if (std::abs(value) < 9007199254740992.0 && value == std::trunc(value) &&
      !(value == 0 && std::signbit(value))) {
    return static_cast<std::int64_t>(value);
  }
  return value;
}

Json text_or_null(const std::string& text) { return text.empty() ? Json(nullptr) : Json(text); }

Summary::Summary(const Report& report)
    : passed(report.count(Status::pass)),
      failed(report.count(Status::fail)),
      skipped(report.count(Status::skip)),
      trials{static_cast<int>(report.trials.size()), report.count(Course::finished),
             report.count(Course::skipped), report.count(Course::cut_short),
             report.count(Course::not_run)},
      exit_code(report.exit_code()) {}

Json to_json(const Report& report) {
  return {{"schema", kSchema},
          {"schema_version", kSchemaVersion},
          {"run", json_of(report.run)},
          {"trials", json_of(report.trials)},
          {"summary", json_of(Summary(report))}};
}

std::string json_text(const TrialRecord& trial) { return json_text(json_of(trial)); }
std::string json_text(const Report& report) { return json_text(to_json(report)); }

}  // namespace tidemark
