#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <optional>

#include "harness/record/number.h"
#include "reports/curves/formats.h"
#include "reports/curves/gather.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;

Json parse(std::string_view text, const Gather& gather, const std::string& place) {
  try {
    return Json::parse(with_quoted_numbers(text));
  } catch (const nlohmann::json::parse_error& e) {
    gather.fail(place,
                fmt::format("not JSON {} byte {}", e.byte >= text.size() ? "after" : "at", e.byte));
  } catch (const nlohmann::json::exception&) {
    gather.fail(place, "holds a number that no double can hold");
  }
}

std::optional<double> number(const Json& value) {
  if (value.is_number()) return value.get<double>();
  if (value.is_string()) return parse_number(value.get_ref<const std::string&>());
  return std::nullopt;
}

std::optional<std::int64_t> step_of(const Json& value) {
  const auto found = number(value);
  return found ? whole(*found) : std::nullopt;
}

/// An object with a step: every other number in it is a point of the curve of that name.
void add_object(const Json& object, Gather& gather, const std::string& place) {
  if (!object.is_object())
    gather.fail(place, fmt::format("is {}, not an object with a step", object.type_name()));
  auto step = object.end();
  for (auto it = object.begin(); it != object.end() && step == object.end(); ++it)
    if (Gather::names_step(it.key())) step = it;
  if (step == object.end()) gather.fail(place, "has no key step, iteration or global_step");
  const auto at = step_of(step.value());
  if (!at) gather.fail(place, fmt::format("{} is not a step", step.value().dump()));
  for (auto it = object.begin(); it != object.end(); ++it) {
    if (it == step || Gather::names_step(it.key()) || Gather::names_time(it.key())) continue;
    const auto value = number(it.value());
    if (value) {
      gather.add(it.key(), *at, *value);
    } else if (it.key() == "loss") {
      gather.fail(place, "its loss is not a number");
    }
  }
}

void add_list(const Json& list, Gather& gather) {
  for (std::size_t i = 0; i < list.size(); ++i) {
    const std::string place = fmt::format("item {}", i);
    const Json& item = list[i];
    if (!item.is_array()) {
      // A trainer's log has lines about other things, too.
      add_object(item, gather, place);
      continue;
    }
    const auto step = item.size() == 2 ? step_of(item[0]) : std::nullopt;
    const auto value = item.size() == 2 ? number(item[1]) : std::nullopt;
    if (!step || !value) gather.fail(place, "is not [step, loss]");
    gather.add("loss", *step, *value);
  }
}

bool golden(const Json& value) {
  if (!value.is_object() || value.empty()) return false;
  for (const auto& metric : value)
    if (!metric.is_object() || !metric.contains("values")) return false;
  return true;
}

std::int64_t member(const Json& metric, const char* key, std::int64_t otherwise,
                    const Gather& gather, const std::string& place) {
  const auto found = metric.find(key);
  if (found == metric.end()) return otherwise;
  const auto value = step_of(found.value());
  if (!value) gather.fail(place, fmt::format("its {} is not a whole number", key));
  return *value;
}

/// Steps are the keys of "values"; in the older form a list that starts at start_step.
void add_metric(const std::string& name, const Json& metric, Gather& gather) {
  const std::string place = fmt::format("'{}'", name);
  const Json& values = metric["values"];
  constexpr auto kFar = std::int64_t{1} << 53;
  const auto first = member(metric, "start_step", values.is_array() ? 0 : -kFar, gather, place),
             last = member(metric, "end_step", kFar, gather, place),
             interval = member(metric, "step_interval", 1, gather, place);
  if (interval < 1) gather.fail(place, "its step_interval is less than 1");
  const auto add = [&](std::int64_t step, const Json& value) {
    const auto found = number(value);
    if (!found) gather.fail(place, fmt::format("step {}: is not a number", step));
    if (step < first || step > last)
      gather.fail(place, fmt::format("has step {} outside its start_step {} and end_step {}: the "
                                     "file was edited",
                                     step, first, last));
    gather.add(name, step, *found);
  };
  if (values.is_array()) {
    for (std::size_t i = 0; i < values.size(); ++i)
      add(first + static_cast<std::int64_t>(i) * interval, values[i]);
  } else if (values.is_object()) {
    for (const auto& [key, value] : values.items()) {
      const auto step = parse_step(key);
      if (!step) gather.fail(place, fmt::format("'{}' is not a step", key));
      add(*step, value);
    }
  } else {
    gather.fail(place, "its values are neither an object nor a list");
  }
}

bool by_step(const Json& value) {
  if (!value.is_object() || value.empty()) return false;
  for (const auto& [key, item] : value.items())
    if (!parse_step(key) || !number(item)) return false;
  return true;
}

}  // namespace

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

std::vector<Curve> read_json_lines(std::string_view text, const std::string& where) {
  Gather gather(where);
  each_line(text, [&](std::string_view line, const std::string& place) {
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) return;
    add_object(parse(line, gather, place), gather, place);
  });
  return gather.take();
}

std::vector<Curve> read_json_value(std::string_view text, const std::string& where,
                                   std::string& format) {
  Gather gather(where);
  const Json value = parse(text, gather, "");
  if (golden(value)) {
    format = "megatron";
    for (const auto& [name, metric] : value.items()) add_metric(name, metric, gather);
  } else if (format == "megatron") {
    gather.fail(
        "", "is not {\"metric\": {\"start_step\", \"end_step\", \"step_interval\", \"values\"}}");
  } else if (value.is_array()) {
    add_list(value, gather);
  } else if (value.is_object() && value.contains("log_history") &&
             value["log_history"].is_array()) {
    for (const Json& entry : value["log_history"])  // lines about evaluation have no loss
      if (entry.is_object() && entry.contains("loss")) add_object(entry, gather, "log_history");
  } else if (by_step(value)) {
    for (const auto& [key, item] : value.items())
      gather.add("loss", *parse_step(key), *number(item));
  } else {
    add_object(value, gather, "");
  }
  return gather.take();
}

}  // namespace tidemark
