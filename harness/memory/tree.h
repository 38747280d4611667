// Lists, dictionaries and scalars, of a pickle or of JSON, without recursion: values are places in
// tables, so that no nesting, sharing or cycle of an untrusted file costs stack or copies.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/memory/error.h"

namespace tidemark {

class Tree {
 public:
  using Id = std::uint32_t;
  enum class Type : std::uint8_t { none, boolean, integer, real, text, list, dictionary, mark };
  struct Value {
    Type type = Type::none;
    std::uint32_t size = 0;  // of a text, a list or a dictionary
    union {
      std::int64_t integer;
      double real;
      const char* text;
      Id* items;  // the room that is there for them stands before the first
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
  std::span<const Id> items(Id id) const { return {values_[id].items, values_[id].size}; }
  std::string_view text_of(Id id) const { return {values_[id].text, values_[id].size}; }
  Id root = 0;

 private:
  Id add(Type type);
  Id container(Type type);
  Id* room(std::size_t items);
  // What grows is never copied: copies would be most of what a large snapshot takes.
  std::deque<Value> values_;
  std::vector<std::unique_ptr<Id[]>> rooms_;  // for items
  Id* free_ = nullptr;                        // in the last of them
  std::size_t left_ = 0;
  std::deque<std::string> kept_;
  std::array<Id, 256> small_{};  // of integers from 0 on; 0: not there yet
  std::size_t containers_ = 0;
};

const char* name_of(Tree::Type);

}  // namespace tidemark
