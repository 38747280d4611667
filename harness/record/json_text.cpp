// nlohmann's own dump puts every number of an array on a line of its own and does not always find
// the shortest decimal.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "harness/record/json.h"
#include "harness/record/number.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kWidth = 100;

std::string scalar(const Json& value) {
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    return std::isfinite(number) ? decimal(number) : "null";
  }
  return value.dump(-1, ' ', false, Json::error_handler_t::replace);
}

void append_inline(const Json& value, std::string& out, const char* between = ", ",
                   const char* colon = ": ") {
  if (!value.is_structured()) {
    out += scalar(value);
    return;
  }
  out += value.is_array() ? '[' : '{';
  const char* comma = "";
  for (const auto& [key, item] : value.items()) {
    out += comma;
    if (value.is_object()) out += scalar(key) + colon;
    append_inline(item, out, between, colon);
    comma = between;
  }
  out += value.is_array() ? ']' : '}';
}

// True if the value has at most `budget` members in all. Counting stops there.
bool few(const Json& value, int& budget) {
  if (--budget < 0) return false;
  return !value.is_structured() || std::all_of(value.begin(), value.end(),
                                               [&](const Json& item) { return few(item, budget); });
}

bool fits_a_line(const Json& value, std::size_t room, std::string& text) {
  const bool list =
      value.is_array() && std::none_of(value.begin(), value.end(), [](const Json& item) {
        return item.is_structured() || item.is_string();
      });
  int budget = 24;
  if (!list && !few(value, budget)) return false;
  append_inline(value, text);
  return list || text.size() <= room;
}

void append(const Json& value, std::size_t indent, std::size_t used, std::string& out) {
  std::string line;
  if (fits_a_line(value, kWidth > used ? kWidth - used : 0, line)) {
    out += line;
    return;
  }
  if (!value.is_structured()) {
    out += scalar(value);
    return;
  }
  out += value.is_array() ? '[' : '{';
  const char* comma = "";
  for (const auto& [key, item] : value.items()) {
    const std::string name = value.is_object() ? scalar(key) + ": " : "";
    out += comma;
    out += '\n' + std::string(indent + 1, ' ') + name;
    append(item, indent + 1, indent + 2 + name.size(), out);
    comma = ",";
  }
  out += '\n' + std::string(indent, ' ') + (value.is_array() ? ']' : '}');
}

}  // namespace

std::string line_of(const Json& value) {
  std::string out;
  append_inline(value, out, ",", ":");
  return out;
}

std::string json_text(const Json& value) {
  std::string out;
  append(value, 0, 0, out);
  return out + '\n';
}

}  // namespace tidemark
