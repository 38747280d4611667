#include "harness/record/json_node.h"

#include <fmt/format.h>

#include <charconv>
#include <limits>
#include <stdexcept>

#include "harness/record/number.h"
#include "harness/record/one_line.h"
#include "harness/record/shared.h"

namespace tidemark {

std::string Node::known_as() const {
  if (!value_.is_object()) return "";
  const auto member = [&](const char* key) {
    const auto entry = value_.find(key);
    return entry ? led_to(*entry) : std::nullopt;
  };
  const auto text = [&](const char* key) {
    const auto value = member(key);
    return value && value->is_string() ? value->text() : std::string();
  };
  if (const std::string scenario = text("scenario"); !scenario.empty())
    return fmt::format("{}/{}/{}/{}", scenario, text("size"), text("mode"), text("schedule"));
  const auto rank = member("rank");
  const auto ranked = rank ? rank->integer() : std::nullopt;
  const std::string number = ranked ? std::to_string(*ranked) : "";
  std::string name = text("name");
  if (const std::string variant = text("variant"); !variant.empty()) name = variant + " " + name;
  return name.empty() || number.empty() ? name + number : name + " rank " + number;
}

std::string Node::place() const {
  if (!parent_) return std::string(name_);
  const std::string before = parent_->place();
  if (parent_->value_.is_array()) {
    const std::string name = one_line(known_as());
    return fmt::format("{}[{}]", before, name.empty() ? std::to_string(index_) : name);
  }
  return before + (parent_->parent_ ? "." : ": ") + std::string(name_);
}

void Node::fail(const std::string& what) const {
  throw std::runtime_error(fmt::format("{}: {}", place(), what));
}

void Node::need(bool holds, const char* what) const {
  if (!holds) fail(fmt::format("is {}, not {}", value_.type_name(), what));
}

Node Node::operator[](std::string_view key) const {
  need(value_.is_object(), "an object");
  const auto entry = value_.find(key);
  if (!entry) fail(fmt::format("missing key '{}'", key));
  return {*entry, *this, key, 0};
}

bool Node::has(std::string_view key) const {
  need(value_.is_object(), "an object");
  return value_.contains(key);
}

std::string Node::text() const {
  need(value_.is_string(), "a string");
  std::string text = value_.text();
  return shared_ && text.starts_with("$$") ? text.substr(1) : text;
}

std::int64_t Node::integer() const {
  need(value_.is_number_integer(), "an integer");
  const auto value = value_.integer();
  if (!value) fail("does not fit 64 bits");
  return *value;
}

int Node::small_integer() const {
  const std::int64_t value = integer();
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
    fail("does not fit 32 bits");
  }
  return static_cast<int>(value);
}

std::uint64_t Node::natural() const {
  const auto value = value_.natural();
  need(value.has_value(), "an integer that is not negative");
  return *value;
}

double Node::number() const {
  need(value_.is_number(), "a number");
  return value_.number();
}

std::optional<double> Node::number_or_null() const {
  return value_.is_null() ? std::nullopt : std::optional(number());
}

std::optional<JsonValue> Node::led_to(JsonValue value) const {
  if (!shared_ || !value.is_string()) return value;
  const std::string text = value.text();
  if (!is_reference(text)) return value;
  std::size_t place = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + 1, end, place);
  const bool there = read.ec == std::errc() && read.ptr == end && place < shared_->size();
  return there ? std::optional((*shared_)[place]) : std::nullopt;
}

JsonValue Node::followed(JsonValue value) const {
  const auto target = led_to(value);
  if (!target)
    fail(fmt::format("'{}' is not a place among the {} shared values: the file was changed",
                     one_line(value.text()), shared_->size()));
  return *target;
}

bool Node::boolean() const {
  need(value_.is_boolean(), "true or false");
  return value_.boolean();
}

double Node::hexadecimal() const {
  const std::string value = text();
  const auto number = parse_number(value);
  if (!number) fail("'" + value + "' is not a hexadecimal float");
  return *number;
}

}  // namespace tidemark
