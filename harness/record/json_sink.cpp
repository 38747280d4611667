// nlohmann's own dump puts every number of an array on a line of its own and does not always find
// the shortest decimal.
#include "harness/record/json_sink.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <utility>

#include "harness/record/json.h"
#include "harness/record/number.h"

namespace tidemark {
namespace {

using Json = nlohmann::ordered_json;
constexpr std::size_t kWidth = 100, kFew = 24;  // characters; values

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

char closing(char bracket) { return bracket == '[' ? ']' : '}'; }

}  // namespace

void JsonSink::put_all(const Json& value) {
  if (!value.is_structured()) return put(value);
  open(value.is_array() ? '[' : '{');
  if (value.is_object()) put_members(value);
  if (value.is_array())
    for (const Json& item : value) put_all(item);
  close();
}

void JsonSink::put_members(const Json& object) {
  for (const auto& [name, item] : object.items()) key(name), put_all(item);
}

void JsonLine::begin() {
  if (!first_ && !member_) out_ += ',';
  first_ = member_ = false;
}

void JsonLine::open(char bracket) {
  begin();
  out_ += bracket;
  open_ += bracket;
  first_ = true;
}

void JsonLine::close() {
  out_ += closing(open_.back());
  open_.pop_back();
  first_ = false;
}

void JsonLine::key(std::string_view key) {
  begin();
  (out_ += scalar(key)) += ':';
  member_ = true;
}

void JsonLine::put(const Json& value) {
  begin();
  out_ += scalar(value);
}

void JsonLayout::open(char bracket) { take(bracket, {}); }
void JsonLayout::close() { take(']', {}); }
void JsonLayout::key(std::string_view key) { take('k', scalar(key)); }
void JsonLayout::put(const Json& value) { take(value.is_string() ? 't' : 'n', scalar(value)); }

/// A part: a bracket, ']' for the end of either, 'k' a key, 't' a text, 'n' another value.
void JsonLayout::take(char kind, std::string_view text) {
  if (depth_ > 0) {
    held_ += kind;
    const auto size = static_cast<std::uint32_t>(text.size());
    held_.append(reinterpret_cast<const char*>(&size), sizeof size).append(text);
    measure(kind, text);
    const bool fits = numbers_ || (values_ <= kFew && length_ <= room_);
    if (!fits) return give_up_line();
    if (depth_ > 0) return;
    begin();
    out_ += line_held();
    held_.clear();
    return;
  }
  if (kind == 'k') {
    (key_ = text) += ": ";
  } else if (kind == ']') {
    (out_ += '\n') += std::string(open_.size() - 1, ' ');
    out_ += closing(open_.back().bracket);
    open_.pop_back();
  } else if (kind == 't' || kind == 'n') {
    begin();
    out_ += text;
  } else {
    const std::size_t used = open_.empty() ? 0 : open_.size() + 1 + key_.size();
    room_ = kWidth > used ? kWidth - used : 0;
    held_.assign(1 + sizeof(std::uint32_t), '\0');
    held_[0] = kind;
    depth_ = 1, values_ = 1, length_ = 1;
    numbers_ = kind == '[', begins_ = true;
  }
}

void JsonLayout::measure(char kind, std::string_view text) {
  if (kind == ']') {
    --depth_, ++length_;
    begins_ = false;
    return;
  }
  if (!begins_) length_ += 2;  // ", "
  begins_ = kind == 'k' || kind == '[' || kind == '{';
  length_ += kind == 'k' ? text.size() + 2 : std::max<std::size_t>(text.size(), 1);
  if (kind == 'k') return;
  ++values_;
  if (kind != 'n') numbers_ = false;
  if (kind == '[' || kind == '{') ++depth_;
}

/// What stands before a value: in what is open, the comma behind the last and its own line.
void JsonLayout::begin() {
  if (open_.empty()) return;
  if (std::exchange(open_.back().any, true)) out_ += ',';
  (out_ += '\n') += std::string(open_.size(), ' ');
  out_ += key_;
  key_.clear();
}

/// The members of what is held get lines of their own; each may have room on one.
void JsonLayout::give_up_line() {
  const std::string parts = std::exchange(held_, {});
  depth_ = 0;
  begin();
  out_ += parts[0];
  open_.push_back({parts[0]});
  for (std::size_t at = 1 + sizeof(std::uint32_t); at < parts.size();) {
    std::uint32_t size = 0;
    std::memcpy(&size, &parts[at + 1], sizeof size);
    take(parts[at], std::string_view(parts).substr(at + 1 + sizeof size, size));
    at += 1 + sizeof size + size;
  }
}

std::string JsonLayout::line_held() const {
  std::string out, open;
  bool begins = true;
  for (std::size_t at = 0; at < held_.size();) {
    const char kind = held_[at];
    std::uint32_t size = 0;
    std::memcpy(&size, &held_[at + 1], sizeof size);
    if (kind != ']' && !begins) out += ", ";
    begins = kind == 'k' || kind == '[' || kind == '{';
    if (kind == ']') {
      out += closing(open.back());
      open.pop_back();
    } else if (kind == '[' || kind == '{') {
      out += kind;
      open += kind;
    } else {
      out.append(held_, at + 1 + sizeof size, size);
      if (kind == 'k') out += ": ";
    }
    at += 1 + sizeof size + size;
  }
  return out;
}

void JsonTree::open(char bracket) {
  open_.push_back(bracket == '[' ? Json::array() : Json::object());
  keys_.emplace_back();
}

void JsonTree::close() {
  Json value = std::move(open_.back());
  open_.pop_back(), keys_.pop_back();
  add(std::move(value));
}

void JsonTree::add(Json value) {
  if (open_.empty())
    whole_ = std::move(value);
  else if (open_.back().is_array())
    open_.back().push_back(std::move(value));
  else
    open_.back().push_back({keys_.back(), std::move(value)});
}

}  // namespace tidemark
