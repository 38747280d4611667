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

/// What JSON permits in a text and a terminal obeys, as \\u....: DEL, C1, and separators of lines.
std::string escaped(std::string text) {
  std::string out;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto byte = [&](std::size_t i) {
      return at + i < text.size() ? static_cast<unsigned char>(text[at + i]) : 0U;
    };
    if (byte(0) == 0x7f) {
      out += "\\u007f";
    } else if (byte(0) == 0xc2 && byte(1) >= 0x80 && byte(1) < 0xa0) {
      out += fmt::format("\\u{:04x}", byte(1)), ++at;
    } else if (byte(0) == 0xe2 && byte(1) == 0x80 && (byte(2) == 0xa8 || byte(2) == 0xa9)) {
      out += fmt::format("\\u{:04x}", 0x2000 + byte(2) - 0x80), at += 2;
    } else {
      out += text[at];
    }
  }
  return out;
}

std::string scalar(const Json& value) {
  if (value.is_number_float()) {
    const auto number = value.get<double>();
    return std::isfinite(number) ? decimal(number) : "null";
  }
  return escaped(value.dump(-1, ' ', false, Json::error_handler_t::replace));
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

std::string json_quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

}  // namespace tidemark
