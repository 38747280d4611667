#include <gmock/gmock.h>

#include <nlohmann/json.hpp>
#include <set>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validation_results.hpp>
#include <valijson/validator.hpp>

#include "harness/record/json.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

using Json = nlohmann::json;
using Adapter = valijson::adapters::NlohmannJsonAdapter;

/// Objection of the schema to `value`; empty when the value is valid.
std::string objection(const Json& value) {
  static const valijson::Schema& schema = *[] {
    const Json text = report_schema();
    auto* out = new valijson::Schema;
    valijson::SchemaParser parser(valijson::SchemaParser::kDraft7);
    parser.populateSchema(Adapter(text), *out);
    return out;
  }();
  valijson::Validator validator;
  valijson::ValidationResults results;
  if (validator.validate(schema, Adapter(value), &results)) return "";
  valijson::ValidationResults::Error error;
  std::string out;
  while (results.popError(error)) {
    for (const std::string& part : error.context) out += part;
    out += ": " + error.description + "\n";
  }
  return out;
}

Json written(const Report& report) { return Json::parse(json_text(report)); }

TEST(Schema, HoldsForReports) {
  Report no_numbers = small_report();
  no_numbers.trials[0].variants[0].loss = {{0, std::nullopt}, {1, NAN}, {2, -INFINITY}, {3, -0.0}};
  no_numbers.trials[0].variants[0].error = "rank 1 died";
  for (const Report& report : {small_report(), gpu_report(), cut_report(), sample_report(),
                               hostile_report(), no_numbers, filled_report(), Report()}) {
    Report named = report;
    if (named.run.device_kind.empty()) named.run.device_kind = "cuda";
    EXPECT_EQ(objection(written(named)), "");
  }
}

TEST(Schema, EveryKeyIsRequiredAndNoOtherAllowed) {
  // Removing any key, or adding one, must be noticed, except in the maps with free keys.
  const Json good = written(small_report());
  int tried = 0;
  std::function<void(const Json::json_pointer&)> visit = [&](const Json::json_pointer& at) {
    const Json& here = good[at];
    const std::string name = at.empty() ? "" : at.back();
    const bool free = name == "params" || name == "env" || name == "values" ||
                      name == "collectives" || name == "collective_bytes" || name == "categories";
    if (here.is_object() && !free) {
      Json more = good;
      more[at]["another"] = 1;
      EXPECT_NE(objection(more), "") << at;
      for (const auto& [key, value] : here.items()) {
        Json less = good;
        less[at].erase(key);
        const std::set<std::string> left_out{
            "gradients", "phase_starts", "timeline",     "largest",    "memory",
            "spans",     "unit",         "slack",        "why",        "seen",
            "link",      "published",    "before_bytes", "after_bytes"};
        if (left_out.contains(key)) {
          EXPECT_EQ(objection(less), "") << at << " without " << key;
          continue;
        }
        EXPECT_NE(objection(less), "") << at << " without " << key;
        ++tried;
      }
    }
    if (here.is_object()) {
      for (const auto& [key, value] : here.items()) visit(at / key);
    } else if (here.is_array() && !here.empty()) {
      visit(at / std::size_t{0});
    }
  };
  visit(Json::json_pointer());
  EXPECT_GT(tried, 90);
}

TEST(Schema, TypesAreChecked) {
  const char* places[] = {"/trials/0/variants/0/ranks/0/phases/0/active/peak",
                          "/trials/0/seed",
                          "/trials/0/variants/0/step_time_ns/0",
                          "/trials/0/verdicts/0/measured",
                          "/summary/failed",
                          "/run/device/kind"};
  for (const char* place : places) {
    Json wrong = written(small_report());
    wrong[Json::json_pointer(place)] = "x";
    EXPECT_NE(objection(wrong), "") << place;
  }
}

}  // namespace
}  // namespace tidemark
