#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/record/json.h"
#include "harness/record/number.h"
#include "harness/virtual/device/nesting.h"
#include "reports/curves/formats.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

Json parse(std::string_view text, const Points& points, const std::string& place) {
  if (is_too_deep(text)) points.fail(place, kTooDeep);
  try {
    return Json::parse(with_quoted_numbers(text));
  } catch (const nlohmann::json::parse_error& e) {
    points.fail(place,
                fmt::format("not JSON {} byte {}", e.byte >= text.size() ? "after" : "at", e.byte));
  } catch (const nlohmann::json::exception&) {
    points.fail(place, "holds a number that no double can hold");
  }
}

/// As a cell: a string without its quotes, all else as JSON.
std::string text_of(const Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void add_object(const Json& object, Points& points, const std::string& place) {
  if (!object.is_object())
    points.fail(place, fmt::format("is {}, not an object with a step", object.type_name()));
  Record record;
  for (const auto& [key, value] : object.items())
    if (value.is_primitive()) record.emplace_back(key, text_of(value));
  points.add(record, place);
}

bool golden(const Json& value) {
  if (!value.is_object() || value.empty()) return false;
  for (const auto& metric : value)
    if (!metric.is_object() || !metric.contains("values")) return false;
  return true;
}

/// Steps are the keys of "values"; in the older form a list that starts at start_step.
void add_metric(const std::string& name, const Json& metric, Points& points) {
  const Json& values = metric["values"];
  const std::string place = fmt::format("'{}'", name);
  if (!values.is_structured()) points.fail(place, "its values are neither an object nor a list");
  const auto member = [&](const char* key, std::int64_t otherwise) {
    const auto value = metric.contains(key) ? parse_step(text_of(metric[key])) : otherwise;
    if (!value) points.fail(place, fmt::format("its {} is not a whole number", key));
    return *value;
  };
  const auto first = member("start_step", 0), interval = member("step_interval", 1);
  if (interval < 1) points.fail(place, "its step_interval is less than 1");
  std::int64_t index = 0;
  for (const auto& [key, value] : values.items()) {
    const std::string step = values.is_object() ? key : std::to_string(first + index++ * interval);
    points.add({{"step", step}, {name, text_of(value)}}, place, /*numbers_only=*/true);
  }
}

}  // namespace

void read_report(std::string_view text, Points& points) {
  bool any = false;
  std::map<std::string, int> taken;
  const Report report = parse_report(text, points.where());
  for (const TrialRecord& trial : report.trials) {
    for (const VariantRecord& variant : trial.variants) {
      std::string name = trial.name() + "/" + variant.name;
      const auto known = [](const LossPoint& point) { return point.value.has_value(); };
      any = any || !variant.loss.empty();
      if (std::ranges::none_of(variant.loss, known)) continue;
      if (const int before = taken[name]++; before > 0) name += fmt::format(" ({})", before + 1);
      for (const LossPoint& point : variant.loss)
        if (point.value) points.add(name, point.step, *point.value);
    }
  }
  if (taken.empty())
    points.fail("", any ? "has no losses, because it ran in mode shapes alone: run with --mode math"
                        : "has no losses");
}

std::string with_quoted_numbers(std::string_view text) {
  std::string out;
  out.reserve(text.size());
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (in_string) {
      out += c;
      if (c == '\\' && i + 1 < text.size()) out += text[++i];
      in_string = c != '"';
      continue;
    }
    in_string = c == '"';
    bool replaced = false;
    if (c == 'N' || c == 'I' || c == '-') {
      for (const char* word : {"NaN", "Infinity", "-Infinity"}) {
        if (!text.substr(i).starts_with(word)) continue;
        out += fmt::format("\"{}\"", word);
        i += std::string_view(word).size() - 1;
        replaced = true;
        break;
      }
    }
    if (!replaced) out += c;
  }
  return out;
}

void read_json_lines(std::string_view text, Points& points) {
  each_line(text, [&](std::string_view line, const std::string& place) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    add_object(parse(line, points, place), points, place);
  });
}

void read_json_value(std::string_view text, Points& points) {
  const Json value = parse(text, points, "");
  if (golden(value)) {
    for (const auto& [name, metric] : value.items()) add_metric(name, metric, points);
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      add_object(value[i], points, fmt::format("item {}", i));
  } else if (value.is_object() && value.contains("log_history") &&
             value["log_history"].is_array()) {
    for (const Json& entry : value["log_history"])  // lines about evaluation have no loss
      if (entry.is_object() && entry.contains("loss")) add_object(entry, points, "log_history");
  } else {
    add_object(value, points, "");
  }
}

}  // namespace tidemark
