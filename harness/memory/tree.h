// Lists, dictionaries and scalars, of a pickle or of JSON, without recursion: values are places in
// tables, so that no nesting, sharing or cycle of an untrusted file costs stack or copies. What has
// been read of a value gives its room to the next.
#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/memory/error.h"

namespace tidemark {

class Tree {
 public:
  using Id = std::uint32_t;
  /// The last four have been read (`become`): what they were is a number.
  enum class Type : std::uint8_t {
    none,
    boolean,
    integer,
    real,
    text,
    list,
    dictionary,
    frame,
    stack,
    event,
    block
  };
  struct Value {
    Type type = Type::none;
    bool shared = false;  // others than its container may refer to it
    std::uint32_t size =
        0;  // of a text, a list or a dictionary; of an integer: how often it is there
    union {
      std::int64_t integer;
      double real;
      const char* text;
      Id* items;  // the room that is there for them stands before the first
    };
    Value() : integer(0) {}
  };

  static constexpr std::size_t kValues = 150'000'000, kContainers = 30'000'000;

  Tree() { small_.fill(kNone), recent_.fill(kNone); }

  Id none();
  Id integer(std::int64_t value, Type type = Type::integer);  // small ones are one value
  Id real(double value);
  Id text(std::string_view value);   // kept as a view
  Id own_text(std::string&& value);  // kept itself; equal ones are one value
  Id list() { return container(Type::list); }
  Id dictionary() { return container(Type::dictionary); }  // items: key, value, key, value ...
  void append(Id container, std::span<const Id> values);
  void share(Id id) { values_[id].shared = true; }
  /// A list or a dictionary that has been read: its items are not needed any more.
  void become(Id id, Type type, std::int64_t number);
  /// Gives the room of a value that is not shared, and of its items that are not, to others.
  void release(Id id) { release(id, 0); }

  const Value& operator[](Id id) const { return values_[id]; }
  std::span<const Id> items(Id id) const { return {values_[id].items, values_[id].size}; }
  std::string_view text_of(Id id) const { return {values_[id].text, values_[id].size}; }
  Id root = 0;

 private:
  static constexpr Id kNone = UINT32_MAX;
  static constexpr std::size_t kReused = 1024;  // items of the largest room that is used again

  Id add(Type type);
  Id& recent(std::int64_t value);
  Id container(Type type);
  Id* room(std::size_t items);
  void leave_room(Id* items);
  void release(Id id, int depth);
  void release_items(Value& value, int depth);
  // What grows is never copied: copies would be most of what a large snapshot takes.
  std::deque<Value> values_;
  Id unused_ = kNone;                         // the first value without use; the next stands in it
  std::vector<std::unique_ptr<Id[]>> rooms_;  // for items
  Id* free_ = nullptr;                        // in the last of them
  std::size_t left_ = 0;
  std::array<Id*, kReused> left_rooms_{};  // by their items; the next stands in each
  std::unordered_map<std::string, Id> texts_;
  std::array<Id, 256> small_;    // of integers from 0 on
  std::array<Id, 1024> recent_;  // of other integers: sizes come again
  Id none_ = kNone, false_ = kNone, true_ = kNone;
  std::size_t containers_ = 0;
};

const char* name_of(Tree::Type);

}  // namespace tidemark
