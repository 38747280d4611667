#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "harness/record/json.h"
#include "harness/record/json_document.h"
#include "harness/record/number.h"
#include "reports/curves/formats.h"

namespace tidemark {
namespace {

/// A text as JSON, where it may have NaN and infinities as Python's json writes them.
class Parsed {
 public:
  Parsed(std::string_view text, const Points& points, const std::string& place) {
    try {
      if (text.find("NaN") != text.npos || text.find("Infinity") != text.npos)
        text = quoted_ = with_quoted_numbers(text);
      document_.emplace(text);
    } catch (const NotJson& fault) {
      points.fail(place, fault.fault == NotJson::Fault::number
                             ? "holds a number that no double can hold"
                             : fault.what());
    }
  }
  JsonValue root() const { return document_->root(); }

 private:
  std::string quoted_;
  std::optional<JsonDocument> document_;
};

/// As a cell: a string without its quotes, all else as it stands there.
std::string text_of(JsonValue value) {
  return value.is_string() ? value.text() : std::string(value.source());
}

/// Members of an object, those of objects in it as "data/loss".
void add_members(JsonValue object, const std::string& before, Record& record) {
  for (std::size_t i = 0; i < object.size(); ++i) {
    const JsonValue value = object.member(i);
    std::string name = before + std::string(object.key(i));
    if (value.is_object())
      add_members(value, name + "/", record);
    else if (!value.is_array())
      record.emplace_back(std::move(name), text_of(value));
  }
}

void add_object(JsonValue object, Points& points, const std::string& place) {
  if (!object.is_object())
    points.fail(place, fmt::format("is {}, not an object with a step", object.type_name()));
  Record record;
  add_members(object, "", record);
  points.add(record, place);
}

constexpr const char* kNumbered = "has no steps: its values are numbered";

/// Lists of numbers, one of which may be that of the steps: {"loss": [3.5, 2.5], "step": [1, 2]}.
/// False where there is none.
bool add_lists(JsonValue object, Points& points) {
  std::optional<JsonValue> steps;
  std::vector<std::size_t> lists;
  for (std::size_t i = 0; i < object.size(); ++i) {
    const JsonValue value = object.member(i);
    if (!value.is_array() || value.size() == 0 || value[0].is_object() || value[0].is_array())
      continue;
    if (names_step(object.key(i)))
      steps = value;
    else
      lists.push_back(i);
  }
  if (!steps && !lists.empty()) points.note("steps", kNumbered);
  for (const std::size_t i : lists) {
    const JsonValue value = object.member(i);
    const std::string name(object.key(i));
    if (steps && steps->size() != value.size())
      points.fail(fmt::format("'{}'", name), "has another length than the list of steps");
    for (std::size_t k = 0; k < value.size(); ++k)
      points.add({{"step", steps ? text_of((*steps)[k]) : std::to_string(k + 1)},
                  {name, text_of(value[k])}},
                 fmt::format("'{}', item {}", name, k));
  }
  return !lists.empty();
}

bool golden(JsonValue value) {
  if (!value.is_object() || value.size() == 0) return false;
  for (std::size_t i = 0; i < value.size(); ++i)
    if (!value.member(i).contains("values")) return false;
  return true;
}

/// Steps are the keys of "values"; in the older form a list that starts at start_step.
void add_metric(const std::string& name, JsonValue metric, Points& points) {
  const JsonValue values = *metric.find("values");
  const std::string place = fmt::format("'{}'", name);
  if (!values.is_array() && !values.is_object())
    points.fail(place, "its values are neither an object nor a list");
  const auto member = [&](const char* key, std::int64_t otherwise) {
    const auto given = metric.find(key);
    const auto value = given ? parse_step(text_of(*given)) : otherwise;
    if (!value) points.fail(place, fmt::format("its {} is not a whole number", key));
    return *value;
  };
  const auto first = member("start_step", 0), interval = member("step_interval", 1);
  if (interval < 1) points.fail(place, "its step_interval is less than 1");
  for (std::size_t i = 0; i < values.size(); ++i) {
    const bool keyed = values.is_object();
    const std::string step =
        keyed ? values.key(i) : std::to_string(first + static_cast<std::int64_t>(i) * interval);
    points.add({{"step", step}, {name, text_of(keyed ? values.member(i) : values[i])}}, place,
               /*numbers_only=*/true);
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
    if (unfinished(text, line) && !nlohmann::json::accept(with_quoted_numbers(line)))
      return points.note("cut", place + " is cut short and left out");
    const Parsed parsed(line, points, place);
    add_object(parsed.root(), points, place);
  });
}

void read_json_value(std::string_view text, Points& points) {
  const Parsed parsed(text, points, "");
  const JsonValue value = parsed.root();
  const auto history = value.find("log_history");
  if (golden(value)) {
    for (std::size_t i = 0; i < value.size(); ++i)
      add_metric(value.key(i), value.member(i), points);
  } else if (value.is_array() && value.size() > 0 && !value[0].is_object()) {
    points.note("steps", kNumbered);
    for (std::size_t i = 0; i < value.size(); ++i)
      points.add({{"step", std::to_string(i + 1)}, {"loss", text_of(value[i])}},
                 fmt::format("item {}", i));
  } else if (value.is_array()) {
    for (std::size_t i = 0; i < value.size(); ++i)
      add_object(value[i], points, fmt::format("item {}", i));
  } else if (history && history->is_array()) {
    for (std::size_t i = 0; i < history->size(); ++i)  // lines about evaluation have no loss
      if (const JsonValue entry = (*history)[i]; entry.contains("loss"))
        add_object(entry, points, "log_history");
  } else if (!value.is_object() || !add_lists(value, points)) {
    add_object(value, points, "");
  }
}

}  // namespace tidemark
