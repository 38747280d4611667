// A report made from its schema: every field is there, and no two hold the same figure or text, so
// that a field which is read into the place of another is noticed.
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "harness/record/json_reader.h"
#include "reports/testing/sample.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

class Filler {
 public:
  Json value(const Json& schema, const std::string& key) {
    if (schema.contains("$ref")) {
      const std::string path = schema["$ref"], name = path.substr(path.rfind('/') + 1);
      Json made = value(schema_["definitions"][name], key);
      connect(name, made);
      return made;
    }
    if (schema.contains("const")) return schema["const"];
    if (schema.contains("enum")) return schema["enum"].back();
    if (schema.contains("anyOf")) return value(schema["anyOf"][0], key);  // the other one is null
    if (schema.contains("oneOf")) return value(in_turn(schema["oneOf"]), key);
    const Json type = schema["type"].is_array() ? in_turn(schema["type"]) : schema["type"];
    if (type == "object") return object(schema, key);
    if (type == "array")
      return Json::array({value(schema["items"], key), value(schema["items"], key)});
    if (type == "string") return text(schema, key);
    if (type == "boolean") return true;
    if (type == "number") return static_cast<double>(++last_) + 0.5;
    if (type == "null") return value(schema, key);  // the other type
    return ++last_;
  }

  Json root() {
    Json made;
    for (const char* key : {"run", "trials"}) made[key] = value(schema_["properties"][key], key);
    return Json::parse(made.dump());  // as read from a file: numbers without a sign are unsigned
  }

 private:
  const Json& in_turn(const Json& all) { return all[++turn_ % all.size()]; }

  Json object(const Json& schema, const std::string& key) {
    Json made = Json::object();
    const Json& free = schema["additionalProperties"];
    if (schema.contains("propertyNames"))
      made[value(schema["propertyNames"], key).get<std::string>()] = value(free, key);
    else if (free.is_object())
      for (int i = 0; i < 2; ++i) made[text(Json::object(), key)] = value(free, key);
    else
      for (const auto& [name, each] : schema["properties"].items()) made[name] = value(each, name);
    return made;
  }

  std::string text(const Json& schema, const std::string& key) {
    const std::string pattern = schema.value("pattern", "");
    if (pattern.starts_with("^[")) return pattern.substr(2, 2);  // of a column of letters
    return pattern.empty() ? key + std::to_string(++last_) : "run";
  }

  /// Makes the fields agree that depend on each other.
  static void connect(const std::string& name, Json& made) {
    if (name == "places") made = {1, 0};
    if (name == "loss") made["hex"] = fmt::format("{:a}", made["value"].get<double>());
    if (name == "step") made["times"] = 2;
    if (name == "trace") made["ops"][0] = "";  // of an event of no operator
    if (name == "rank") {
      made["phases"] = made["steps"].back()["phases"];
    }
    if (name == "fits") made["fits"] = made["reserved_bytes"] <= made["capacity_bytes"];
    if (name == "source") made["link"] = "https://" + made["link"].get<std::string>();
    if (name == "file") made["path"] = "loss/" + made["path"].get<std::string>();
    if (name == "alive_at_peak")
      made["active"] =
          made["parts"][0]["bytes"].get<Bytes>() + made["parts"][1]["bytes"].get<Bytes>();
  }

  const Json schema_ = report_schema();
  std::int64_t last_ = 0;
  std::size_t turn_ = 0;
};

}  // namespace

Json filled_json() { return Filler().root(); }

Report filled_report() {
  const std::string text = filled_json().dump();
  const JsonDocument json(text);
  const Node root(json.root(), "filled");
  Report report;
  JsonReader::read(root["run"], report.run);
  JsonReader::read(root["trials"], report.trials);
  return report;
}

}  // namespace tidemark
