// A JSON value with its place in the document, so that every error about it is one line that names
// the place.
#pragma once

#include <concepts>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/json_document.h"

namespace tidemark {

/// Every access throws std::runtime_error ("report.json: trials[0].ranks: ...") where the value is
/// not what was asked for. Refers to its parents: keep a Node no longer than the expression or the
/// callback that made it.
class Node {
 public:
  /// `shared`: the list in which references of its members lead to values (shared.h); without it a
  /// text is a text.
  Node(JsonValue value, std::string_view file, std::optional<JsonValue> shared = {})
      : shared_(shared), value_(value), name_(file) {}
  /// A node keeps a view of its file's name, which outlives it.
  template <std::same_as<std::string> Temporary>
  Node(JsonValue value, Temporary&& file, std::optional<JsonValue> shared = {}) = delete;

  const JsonValue& value() const { return value_; }
  /// "report.json: trials[0].ranks"
  std::string place() const;
  std::size_t size() const { return value_.size(); }
  [[noreturn]] void fail(const std::string& what) const;
  /// Fails where the value is not `what`.
  void need(bool holds, const char* what) const;

  Node operator[](std::string_view key) const;
  bool has(std::string_view key) const;

  void each(auto visit) const {
    need(value_.is_array(), "an array");
    value_.each([&](const JsonValue& item, std::size_t i) { visit(Node(item, *this, {}, i)); });
  }

  void members(auto visit) const {
    need(value_.is_object(), "an object");
    for (std::size_t i = 0; i < value_.size(); ++i) {
      const std::string key = value_.key(i);
      visit(key, Node(value_.member(i), *this, key, 0));
    }
  }

  std::string text() const;
  std::int64_t integer() const;  // no fraction, within 64 bits
  int small_integer() const;     // within 32 bits
  std::uint64_t natural() const;
  double number() const;
  std::optional<double> number_or_null() const;
  bool boolean() const;
  double hexadecimal() const;  // a string as printf's %a writes it, nan and inf included

 private:
  Node(JsonValue value, const Node& parent, std::string_view name, std::size_t index)
      : shared_(parent.shared_),
        value_(parent.followed(value)),
        parent_(&parent),
        name_(name),
        index_(index) {}

  /// The name by which a person knows an array's item: the trial's, the variant's, the number of a
  /// rank; empty where it has none.
  std::string known_as() const;

  /// The value at a reference's place, or the value itself; none where there is no such place.
  std::optional<JsonValue> led_to(JsonValue value) const;
  JsonValue followed(JsonValue value) const;  // fails there

  std::optional<JsonValue> shared_;
  JsonValue value_;
  const Node* parent_ = nullptr;
  std::string_view name_;  // the key; empty for an array's item
  std::size_t index_ = 0;
};

/// An array's items, converted by `convert`.
template <class Item, class Convert>
std::vector<Item> list(const Node& node, Convert convert) {
  std::vector<Item> out;
  out.reserve(node.size());
  node.each([&](const Node& item) { out.push_back(convert(item)); });
  return out;
}
inline std::int64_t integer(const Node& node) { return node.integer(); }
inline std::string text(const Node& node) { return node.text(); }

}  // namespace tidemark
