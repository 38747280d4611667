// The one reader of a record's entries (format.h): for the recorder, which rewrites them, and for
// reports.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <string_view>

#include "harness/memory/format/entries.h"
#include "harness/memory/format/format.h"

namespace tidemark::recorder {

/// An entry as it is read. Addresses and times are whole, not relative to the entry before; names,
/// files, stacks, modules and nodes are numbers of earlier entries. A field that the entry's tag
/// does not have is zero or empty.
struct Entry {
  Tag tag{};
  std::string_view head, tail;  // before the addresses, and behind them without the time
  bool defines = false;         // a name, a setting: part of no step
  bool timed = false;
  std::int64_t time = 0;  // nanoseconds since the record began
  std::array<std::int64_t, 2> addresses{};
  std::size_t addressed = 0;     // how many of them it has
  std::string_view text, value;  // a string; of a setting name and value; a stream's name;
                                 // a file and a line of it
  std::uint64_t name = 0, file = 0, line = 0;        // of a label kind and name (`file`)
  std::uint64_t caller = 0, frame = 0;               // of a stack
  std::uint64_t stack = 0, module = 0, node = 0;     // of a node the one that ran then
  std::uint64_t action = 0, device = 0, stream = 0;  // of an event
  std::uint64_t size = 0, left = 0;                  // bytes; of oom: what the device had
  std::uint64_t number = 0, count = 0;  // of a step, of a use; of repeats period and count
  std::array<std::uint64_t, 2> pool{};  // of a segment, and of a refused request
  bool pool_known = false;              // of a refused request
  std::uint64_t limit = 0;              // of it; what was asked is `size`
  std::array<std::int64_t, 4> held{};   // allocated, active, reserved, outside
  SkippedCount skipped;
};

class EntryReader {
 public:
  explicit EntryReader(std::string_view entries) : in_(entries) {}

  /// Reads the next entry; false at the end. Throws CutOff where it is cut off or is none.
  bool next() {
    if (!in_.more()) return false;
    entry_ = Entry{};
    const std::size_t begin = in_.place();
    entry_.tag = static_cast<Tag>(in_.byte());
    read(begin);
    return true;
  }
  const Entry& entry() const { return entry_; }
  /// Bytes that were read.
  std::size_t place() const { return in_.place(); }

 private:
  void read(std::size_t begin) {
    Entry& e = entry_;
    switch (e.tag) {
      case Tag::string:
        e.text = in_.view();
        return define(begin);
      case Tag::frame:
        e.name = in_.number(), e.file = in_.number(), e.line = in_.number();
        return define(begin);
      case Tag::stack:
        e.caller = in_.number(), e.frame = in_.number();
        return define(begin);
      case Tag::node:
        e.name = in_.number(), e.stack = in_.number(), e.module = in_.number();
        e.node = in_.number();
        return define(begin);
      case Tag::setting:
        e.text = in_.view(), e.value = in_.view();
        return define(begin);
      case Tag::stream:
        e.stream = in_.number(), e.text = in_.view();
        return define(begin);
      case Tag::source:
        e.text = in_.view(), e.line = in_.number(), e.value = in_.view();
        return define(begin);
      case Tag::event:
        return event(begin);
      case Tag::block:
        e.device = in_.number(), e.size = in_.number();
        e.head = in_.since(begin);
        return;
      case Tag::label:
        e.head = in_.since(begin);
        address();
        begin = in_.place();
        e.name = in_.number(), e.file = in_.number();
        e.tail = in_.since(begin);
        return;
      case Tag::use:
        e.head = in_.since(begin);
        address();
        begin = in_.place();
        e.number = in_.number();
        if (e.number >= words(BlockUse()).size()) throw CutOff("is not a use");
        e.tail = in_.since(begin);
        return;
      case Tag::gather:
        e.head = in_.since(begin);
        address(), address();
        begin = in_.place();
        e.size = in_.number();
        e.tail = in_.since(begin);
        return;
      case Tag::computed:
        e.head = in_.since(begin);
        address(), address();
        return;
      case Tag::pool:
        e.device = in_.number();
        e.head = in_.since(begin);
        address();
        begin = in_.place();
        e.pool = {in_.number(), in_.number()};
        e.tail = in_.since(begin);
        return;
      case Tag::refused:
        e.device = in_.number(), e.size = in_.number(), e.limit = in_.number();
        for (std::int64_t& one : e.held) one = in_.signed_number();
        e.pool_known = in_.number() != 0;
        e.pool = {in_.number(), in_.number()};
        e.head = in_.since(begin);
        return;
      case Tag::phase:
      case Tag::phase_end:
        e.name = in_.number();
        e.head = in_.since(begin);
        return time();
      case Tag::step:
        e.number = in_.number();
        e.time = time_ = in_.signed_number();
        address_ = 0;
        e.head = in_.since(begin);
        return;
      case Tag::repeats:
        e.number = in_.number();
        std::memcpy(&e.count, in_.take(sizeof e.count).data(), sizeof e.count);
        return;
      case Tag::skipped:
        for (std::uint64_t* part :
             {&e.skipped.first, &e.skipped.last, &e.skipped.steps, &e.skipped.events, &e.size})
          *part = in_.number();
        return;
    }
    throw CutOff("is not an entry");
  }
  void define(std::size_t begin) {
    entry_.defines = true;
    entry_.head = in_.since(begin);
  }
  void event(std::size_t begin) {
    Entry& e = entry_;
    e.action = in_.number(), e.device = in_.number();
    e.head = in_.since(begin);
    address();
    begin = in_.place();
    e.size = in_.number();
    if (e.action == static_cast<std::uint64_t>(AllocatorAction::oom)) e.left = in_.number();
    e.stream = in_.number(), e.stack = in_.number(), e.module = in_.number();
    e.node = in_.number();
    e.tail = in_.since(begin);
    time();
  }
  void address() {
    address_ += static_cast<std::uint64_t>(in_.signed_number());
    entry_.addresses[entry_.addressed++] = static_cast<std::int64_t>(address_);
  }
  void time() {
    if (__builtin_add_overflow(time_, in_.signed_number(), &time_))
      throw CutOff("has a time beyond all clocks");
    entry_.time = time_;
    entry_.timed = true;
  }

  Entries in_;
  Entry entry_;
  std::uint64_t address_ = 0;
  std::int64_t time_ = 0;
};

}  // namespace tidemark::recorder
