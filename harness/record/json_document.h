// A JSON text as it lies in its file: the places of its values, and no copies of them. Read only.
//
// A value takes 4 bytes beside the text, a key 4 and a list or an object 8, where a tree of
// nlohmann's takes 16 to 60: files of others may be large. Of a long list without lists in it every
// sixteenth value alone has a place.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark {

class JsonValue;

/// What is wrong with a text that is not JSON.
struct NotJson : std::runtime_error {
  enum class Fault { syntax, cut_off, number, deep };
  NotJson(Fault of, std::size_t at);
  Fault fault;
  std::size_t byte;  // where it was seen
};

class JsonDocument {
 public:
  /// Refers to `text`. Throws NotJson, also where values lie in one another more than 1,000 deep or
  /// a number is outside of the range of a double.
  explicit JsonDocument(std::string_view text);
  JsonDocument(const JsonDocument&) = delete;
  JsonDocument& operator=(const JsonDocument&) = delete;

  JsonValue root() const;

 private:
  friend class JsonValue;
  using Ref = std::uint32_t;  // a place in the text, or kList and a place in lists_
  static constexpr Ref kList = Ref{1} << 31;
  struct List {
    std::uint32_t begin = 0;  // in refs_; keys and values in turn
    std::uint32_t count : 31 = 0;
    std::uint32_t sparse : 1 = 0;  // refs_ has every kSparse-th of its values
  };
  static constexpr std::size_t kSparse = 16;

  std::string_view text_;
  std::deque<Ref> refs_;
  std::deque<List> lists_;
  std::deque<Ref> begins_;  // of lists, in the text
  Ref root_ = 0;
};

/// A value of a document that outlives it. What is asked for is there: `is_...` is asked first.
class JsonValue {
 public:
  bool is_array() const { return first() == '['; }
  bool is_object() const { return first() == '{'; }
  bool is_string() const { return first() == '"'; }
  bool is_null() const { return first() == 'n'; }
  bool is_boolean() const { return first() == 't' || first() == 'f'; }
  bool is_number() const;
  bool is_number_integer() const { return natural() || integer(); }
  bool is_number_unsigned() const { return natural().has_value(); }
  const char* type_name() const;

  /// Of a list or an object; of another value 1, of null 0.
  std::size_t size() const;
  JsonValue operator[](std::size_t item) const;
  /// Calls `visit(item, number)` with each item of a list.
  void each(const auto& visit) const {
    if (!list().sparse) {
      for (std::size_t i = 0; i < size(); ++i) visit((*this)[i], i);
      return;
    }
    JsonValue item{*of_, of_->refs_[list().begin]};
    for (std::size_t i = 0; i < list().count; ++i, item.ref_ = item.behind()) visit(item, i);
  }
  std::string key(std::size_t member) const;
  JsonValue member(std::size_t member) const;
  /// None also where it is no object.
  std::optional<JsonValue> find(std::string_view key) const;
  bool contains(std::string_view key) const { return find(key).has_value(); }

  std::string text() const;
  /// Where it is one that 64 bits hold.
  std::optional<std::uint64_t> natural() const;
  std::optional<std::int64_t> integer() const;
  double number() const;
  bool boolean() const { return first() == 't'; }
  /// As it stands in the text.
  std::string_view source() const;

 private:
  friend class JsonDocument;
  using Ref = JsonDocument::Ref;
  JsonValue(const JsonDocument& of, Ref ref) : of_(&of), ref_(ref) {}

  bool is_list() const { return (ref_ & JsonDocument::kList) != 0; }
  const JsonDocument::List& list() const { return of_->lists_[ref_ & ~JsonDocument::kList]; }
  std::size_t begin() const { return is_list() ? of_->begins_[ref_ & ~JsonDocument::kList] : ref_; }
  char first() const { return of_->text_[begin()]; }
  /// The place of the scalar behind this one, in the same list.
  Ref behind() const;
  /// Digits and what is among them, of a number.
  std::string_view digits() const;

  const JsonDocument* of_;
  Ref ref_;
};

/// The document; null where the text is not JSON. Throws std::runtime_error in one line that begins
/// with `where` for one that is nested too deep, or that has a number that no double holds.
std::unique_ptr<JsonDocument> json_of_others(std::string_view text, const std::string& where);

}  // namespace tidemark
