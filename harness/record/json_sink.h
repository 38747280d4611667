// A JSON value as the parts of which it consists, in their order: nothing holds it as a whole.
#pragma once

#include <cstddef>
#include <functional>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "harness/record/growing_text.h"

namespace tidemark {

class JsonSink {
 public:
  using Json = nlohmann::ordered_json;
  virtual ~JsonSink() = default;

  /// Begins a list, by '[', or an object, by '{'.
  virtual void open(char bracket) = 0;
  virtual void close() = 0;
  /// Of the value that comes next, a member of an object.
  virtual void key(std::string_view key) = 0;
  /// A value that is neither a list nor an object.
  virtual void put(const Json& scalar) = 0;

  /// A value of any kind.
  void put_all(const Json& value);
  /// The members of an object, without its brackets.
  void put_members(const Json& object);
};

/// Writes what it is given on one line.
class JsonLine : public JsonSink {
 public:
  explicit JsonLine(GrowingText& out) : out_(out) {}
  void open(char bracket) override;
  void close() override;
  void key(std::string_view key) override;
  void put(const Json& scalar) override;

 private:
  void begin();

  GrowingText& out_;
  std::string open_;  // brackets
  bool first_ = true, member_ = false;
};

/// Writes a value on lines of at most 100 characters where its members are few. A list of numbers
/// is on one line.
class JsonLayout : public JsonSink {
 public:
  explicit JsonLayout(GrowingText& out) : out_(out) {}
  void open(char bracket) override;
  void close() override;
  void key(std::string_view key) override;
  void put(const Json& scalar) override;

 private:
  /// A list or an object whose members have lines of their own.
  struct Open {
    char bracket = 0;
    bool any = false;
  };
  void take(char kind, std::string_view text);
  void measure(char kind, std::string_view text);
  void begin();
  void give_up_line();
  std::string line_held() const;

  GrowingText& out_;
  std::vector<Open> open_;
  std::string key_;  // of the next value, in the innermost of them
  // A list or an object that may yet have room on a line: its parts as {kind, length, text}.
  std::string held_;
  std::size_t depth_ = 0;  // of what is open in it; 0: nothing is held
  std::size_t room_ = 0, values_ = 0, length_ = 0;
  bool numbers_ = false;  // it is a list, of values that are no texts
  bool begins_ = false;   // the last part was a bracket or a key
};

/// Makes the value.
class JsonTree : public JsonSink {
 public:
  void open(char bracket) override;
  void close() override;
  void key(std::string_view key) override { keys_.back() = key; }
  void put(const Json& scalar) override { add(scalar); }
  Json take() { return std::move(whole_); }

 private:
  void add(Json value);

  std::vector<Json> open_;
  std::vector<std::string> keys_;  // of the next value in each
  Json whole_;
};

}  // namespace tidemark
