// Lists, dictionaries and scalars, of a pickle or of JSON, without recursion: values are places in
// tables, so that no nesting, sharing or cycle of an untrusted file costs stack or copies.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "reports/snapshot/error.h"

namespace tidemark {

class Tree {
 public:
  using Id = std::uint32_t;
  enum class Type : std::uint8_t { none, boolean, integer, real, text, list, dictionary, mark };
  struct Value {
    Type type = Type::none;
    std::uint32_t items = 0;  // of text(), items(): the place in its table
    union {
      std::int64_t integer;
      double real;
    };
    Value() : integer(0) {}
  };

  static constexpr std::size_t kValues = 150'000'000, kContainers = 30'000'000;

  Id none() { return add(Type::none); }
  Id integer(std::int64_t value, Type type = Type::integer);  // small ones are one value
  Id real(double value);
  Id text(std::string_view value);  // kept as a view: `keep` what does not outlive the tree
  Id list() { return container(Type::list); }
  Id dictionary() { return container(Type::dictionary); }  // items: key, value, key, value ...
  std::string_view keep(std::string text);
  void append(Id container, std::span<const Id> values);

  const Value& operator[](Id id) const { return values_[id]; }
  const std::vector<Id>& items(Id id) const { return items_[values_[id].items]; }
  std::string_view text_of(Id id) const { return texts_[values_[id].items]; }
  Id root = 0;

 private:
  Id add(Type type);
  Id container(Type type);
  // What grows is never copied: copies would be most of what a large snapshot takes.
  std::deque<Value> values_;
  std::deque<std::vector<Id>> items_;
  std::deque<std::string_view> texts_;
  std::array<Id, 256> small_{};  // of integers from 0 on; 0: not there yet
  std::deque<std::string> kept_;
};

const char* name_of(Tree::Type);

}  // namespace tidemark
