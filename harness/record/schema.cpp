// Schema of report.json, made from the record's fields (fields.h).
#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <type_traits>

#include "harness/record/json.h"
#include "harness/record/json_writer.h"
#include "harness/record/verdict_kind.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

Json reference(const std::string& name) { return {{"$ref", "#/definitions/" + name}}; }

class SchemaMaker {
 public:
  explicit SchemaMaker(Json& definitions) : definitions_(definitions) {}

  void title(const char* name, const char* about = "") {
    name_ = name;
    if (*about != 0) object_["description"] = about;
  }
  void operator()(const char* key, auto& x, const Meaning& meaning = {}, const char* about = "") {
    add(key, of(x, meaning), about, true);
  }
  void later(const char* key, auto& x, const Meaning& meaning = {}, const char* about = "") {
    add(key, of(x, meaning), about, true);
  }
  template <class T>
  void optional(const char* key, T& x, const Meaning& meaning = {}, const char* about = "",
                const auto&...) {
    if constexpr (std::is_same_v<T, bool>)
      add(key, {{"const", true}}, about, false);
    else
      add(key, of(x, meaning), about, false);
  }
  template <class T>
  void optional(const char* key, std::optional<T>&, const Meaning& meaning = {},
                const char* about = "") {
    T x{};
    add(key, of(x, meaning), about, false);
  }
  template <class T>
  void runs(const char* key, std::vector<T>&, const char* about) {
    T x{};
    SchemaMaker item(definitions_);
    int times = 1;
    item("times", times, meaning::positive);
    tidemark::visit(x, item);
    add(key, {{"type", "array"}, {"items", item.define()}}, about, true);
  }
  void exact(const char* key, const char* hex, std::optional<double>& x) {
    add(key, of(x, {}), "", true);
    add(hex, {{"type", {"string", "null"}}, {"pattern", "^-?(0x[0-9a-f.]+p[+-][0-9]+|nan|inf)$"}},
        "", true);
  }
  void derived(const char* key, auto made, const char* about, const char*) {
    auto x = made();
    add(key, of(x, {}), about, true);
  }
  void group(const char* key, const char* about, auto fields) {
    SchemaMaker inner(definitions_);
    fields(inner);
    add(key, inner.object(), about, true);
  }
  void either(const char* key, const std::string&, auto fields) {
    fields(*this);
    other_ = key;
  }
  template <class Row, class Columns>
  void columns(std::vector<Row>&, Columns each) {
    Column<Row> column{*this};
    each(column);
  }
  void grouped(const char* key, std::vector<Verdict>&, const char* about) {
    SchemaMaker item(definitions_);
    Verdict x;
    std::vector<int> ranks;
    tidemark::visit(x, item);
    item("ranks", ranks);
    add(key, {{"type", "array"}, {"items", item.define()}}, about, true);
  }
  void detail(const char* key, auto& x, const Meaning& meaning = {}, const char* about = "") {
    add(key, of(x, meaning), about, false);
  }
  void exported(const char* key, auto& x) { detail(key, x); }
  void check(auto, const char*) {}
  void once_read(auto) {}

  /// The schema of all fields so far.
  Json object() {
    Json out{{"type", "object"}, {"additionalProperties", false}};
    out["required"] = required_;
    out["properties"] = properties_;
    if (!other_.empty()) {
      Json alone{{"type", "object"}, {"additionalProperties", false}};
      alone["required"] = Json::array({other_});
      alone["properties"] = {{other_, leaf(meaning::name)}};
      out = {{"oneOf", Json::array({out, alone})}};
    }
    Json described = object_;
    described.update(out);
    return described;
  }
  /// Puts it among the definitions, and returns a reference to it.
  Json define() {
    definitions_[name_] = object();
    return reference(name_);
  }
  Json leaf(const Meaning& meaning) {
    definitions_[meaning.name] = Json::parse(meaning.schema);
    if (meaning.name == meaning::verdict.name)
      definitions_[meaning.name]["pattern"] =
          fmt::format("^(({})/.|run$)", fmt::join(kVerdictKinds, "|"));
    if (meaning.name == meaning::memory_kind.name)
      definitions_[meaning.name]["enum"] = words(MemoryKind());
    return reference(meaning.name);
  }

 private:
  template <class Row>
  struct Column {
    SchemaMaker& maker;
    void operator()(const char* key, auto Row::*) {
      maker.add(key, maker.leaf({"column", R"({"type": "array", "items": {"type": "integer"}})"}),
                "", true);
    }
    void places(const char* key, auto Row::*, const std::vector<std::string>&) {
      maker.add(key,
                maker.leaf(
                    {"places", R"({"type": "array", "items": {"type": "integer", "minimum": 0}})"}),
                "", true);
    }
    void letters(const char* key, auto Row::*, std::string_view all) {
      maker.add(key, {{"type", "string"}, {"pattern", fmt::format("^[{}]*$", all)}}, "", true);
    }
  };

  void add(const char* key, Json schema, const char* about, bool required) {
    if (*about != 0) schema["description"] = about;
    properties_[key] = std::move(schema);
    if (required) required_.push_back(key);
  }

  template <class T>
    requires(!kInColumns<T>)
  Json of(const std::vector<T>&, const Meaning& meaning) {
    T x{};
    return {{"type", "array"}, {"items", of(x, meaning)}};
  }
  template <class T>
  Json of(const std::map<std::string, T>&, const Meaning& meaning) {
    T x{};
    return {{"type", "object"}, {"additionalProperties", of(x, meaning)}};
  }
  template <class T>
  Json of(const std::map<MemoryKind, T>&, const Meaning& meaning) {
    T x{};
    return {{"type", "object"},
            {"propertyNames", leaf(meaning::memory_kind)},
            {"additionalProperties", of(x, meaning)}};
  }
  template <class T>
  Json of(const std::optional<T>&, const Meaning& meaning) {
    T x{};
    Json inner = of(x, meaning);
    if (std::is_same_v<T, double>) return inner;  // null already
    return {{"anyOf", Json::array({inner, {{"type", "null"}}})}};
  }
  template <class T>
  Json of(const T&, const Meaning& meaning) {
    if (meaning.name != nullptr) return leaf(meaning);
    if constexpr (std::is_same_v<T, std::string>) {
      return {{"type", "string"}};
    } else if constexpr (std::is_same_v<T, bool>) {
      return {{"type", "boolean"}};
    } else if constexpr (std::is_same_v<T, double>) {
      return leaf(
          {"number",
           R"({"type": ["number", "null"], "description": "null: no value, or not finite"})"});
    } else if constexpr (std::is_integral_v<T>) {
      return {{"type", "integer"}};
    } else if constexpr (std::is_same_v<T, Setting>) {
      return {{"type", {"integer", "string"}}};
    } else if constexpr (std::is_enum_v<T>) {
      return {{"enum", words(T())}};
    } else {
      SchemaMaker inner(definitions_);
      T x{};
      tidemark::visit(x, inner);
      return inner.define();
    }
  }

  Json& definitions_;
  Json object_ = Json::object(), properties_ = Json::object(), required_ = Json::array();
  std::string name_, other_;
};

/// Whether a value of this schema is a text, a list or an object, which the file may have in its
/// list of shared values.
bool shareable(const Json& schema, const Json& definitions) {
  const auto name = schema.find("$ref");
  if (name != schema.end()) {
    const auto text = name->get<std::string>();
    return shareable(definitions.at(text.substr(text.rfind('/') + 1)), definitions);
  }
  const auto type = schema.find("type");
  if (type == schema.end()) return !schema.contains("const");
  const Json one = type->is_array() ? *type : Json::array({*type});
  return std::ranges::any_of(one, [](const Json& each) {
    return each == "string" || each == "array" || each == "object";
  });
}

/// Lets every value inside of this schema be a reference to a shared one.
void let_share(Json& schema, const Json& definitions) {
  const auto inner = [&](Json& one) {
    let_share(one, definitions);
    if (shareable(one, definitions))
      one = {{"anyOf", Json::array({one, reference("shared_value")})}};
  };
  for (const char* key : {"oneOf", "anyOf"})
    if (schema.contains(key))
      for (Json& one : schema[key]) let_share(one, definitions);
  if (schema.contains("properties"))
    for (auto& [name, one] : schema["properties"].items()) inner(one);
  for (const char* key : {"items", "additionalProperties"})
    if (schema.contains(key) && schema[key].is_object()) inner(schema[key]);
}

}  // namespace

nlohmann::ordered_json report_schema() {
  Json definitions = Json::object();
  SchemaMaker maker(definitions);
  Report report;
  Summary summary;
  maker("run", report.run);
  maker("trials", report.trials);
  maker("summary", summary);
  Json root = maker.object();
  const Json plain = definitions;
  for (auto& [name, one] : definitions.items()) let_share(one, plain);
  let_share(root["properties"]["trials"], plain);
  definitions["shared_value"] = {{"type", "string"}, {"pattern", "^[$][0-9]+$"}};
  Json properties{{"schema", {{"const", kSchema}}},
                  {"schema_version", {{"type", "string"}, {"pattern", "^3\\.[0-9]+$"}}}};
  properties.update(root["properties"]);
  properties["shared"] = {{"type", "array"},
                          {"description", "in the file alone: values that come up more than once"}};
  return {
      {"$schema", "http://json-schema.org/draft-07/schema#"},
      {"$id", fmt::format("tidemark-report-{}", kSchemaVersion)},
      {"title", "tidemark report"},
      {"description",
       "The record of a run, as report.json has it and as tidemark report DIR --json prints it. In "
       "the file, values of the object 'trials' that come up more than once stand in the list "
       "'shared', and a text of the form $N is the one at place N of it (a text that begins with $ "
       "has another $ in front); gradients, timelines and blocks are in details/, a file of this "
       "form a variant; the map and the allocator's events are in snapshot/ alone, spans in "
       "trace/. "
       "What is printed has every value in its place, with the details. Byte counts are "
       "integers; times are integer nanoseconds on the device's clock (virtual, or real). Two runs "
       "of the same trials on the virtual platform differ in the object 'run' only."},
      {"type", "object"},
      {"additionalProperties", false},
      {"required", {"schema", "schema_version", "run", "trials", "summary"}},
      {"properties", std::move(properties)},
      {"definitions", std::move(definitions)}};
}

}  // namespace tidemark
