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
  const auto member = [&](const char* key) -> const Json* {
    const auto entry = value_.find(key);
    return entry == value_.end() ? nullptr : led_to(*entry);
  };
  const auto text = [&](const char* key) {
    const Json* value = member(key);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  };
  if (const std::string scenario = text("scenario"); !scenario.empty())
    return fmt::format("{}/{}/{}/{}", scenario, text("size"), text("mode"), text("schedule"));
  const Json* rank = member("rank");
  const bool ranked = rank != nullptr && rank->is_number_integer();
  const std::string number = ranked ? std::to_string(rank->get<std::int64_t>()) : "";
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
  if (entry == value_.end()) fail(fmt::format("missing key '{}'", key));
  return {entry.value(), *this, key, 0};
}

bool Node::has(std::string_view key) const {
  need(value_.is_object(), "an object");
  return value_.contains(key);
}

std::string Node::text() const {
  need(value_.is_string(), "a string");
  const auto& text = value_.get_ref<const std::string&>();
  return shared_ != nullptr && text.starts_with("$$") ? text.substr(1) : text;
}

std::int64_t Node::integer() const {
  need(value_.is_number_integer(), "an integer");
  if (value_.is_number_unsigned() &&
      value_.get<std::uint64_t>() > std::numeric_limits<std::int64_t>::max()) {
    fail("does not fit 64 bits");
  }
  return value_.get<std::int64_t>();
}

int Node::small_integer() const {
  const std::int64_t value = integer();
  if (value < std::numeric_limits<int>::min() || value > std::numeric_limits<int>::max()) {
    fail("does not fit 32 bits");
  }
  return static_cast<int>(value);
}

std::uint64_t Node::natural() const {
  need(value_.is_number_unsigned(), "an integer that is not negative");
  return value_.get<std::uint64_t>();
}

double Node::number() const {
  need(value_.is_number(), "a number");
  return value_.get<double>();
}

std::optional<double> Node::number_or_null() const {
  return value_.is_null() ? std::nullopt : std::optional(number());
}

const Node::Json* Node::led_to(const Json& value) const {
  if (shared_ == nullptr || !value.is_string()) return &value;
  const auto& text = value.get_ref<const std::string&>();
  if (!is_reference(text)) return &value;
  std::size_t place = 0;
  const char* end = text.data() + text.size();
  const auto read = std::from_chars(text.data() + 1, end, place);
  const bool there = read.ec == std::errc() && read.ptr == end && place < shared_->size();
  return there ? &(*shared_)[place] : nullptr;
}

const Node::Json& Node::followed(const Json& value) const {
  const Json* target = led_to(value);
  if (target == nullptr)
    fail(fmt::format("'{}' is not a place among the {} shared values: the file was changed",
                     one_line(value.get<std::string>()), shared_->size()));
  return *target;
}

bool Node::boolean() const {
  need(value_.is_boolean(), "true or false");
  return value_.get<bool>();
}

double Node::hexadecimal() const {
  const auto value = parse_number(text());
  if (!value) fail("'" + text() + "' is not a hexadecimal float");
  return *value;
}

}  // namespace tidemark
