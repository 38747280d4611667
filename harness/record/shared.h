// Values that occur more than once in a JSON text, written once.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "harness/record/json.h"
#include "harness/record/json_sink.h"

namespace tidemark {

/// Moves the arrays, objects and longer texts that come up more than once in a list of values to
/// another list; in their place stands "$N", N being the place in that. What is in it refers to
/// earlier places alone. A text that begins with '$' gets another '$' in front.
///
/// The values of the list are not held: each is given twice, in the same order.
class Sharing {
 public:
  Sharing() = default;
  Sharing(const Sharing&) = delete;
  Sharing& operator=(const Sharing&) = delete;

  /// Takes all values of the list, the first time.
  JsonSink& seen() { return numbers_; }
  /// Takes the next value of the list, the second time: what is written in its place goes to `out`.
  void write(GrowingText& out, const PutJson& value);
  /// What is referred to, as JSON on one line each, once all are written.
  const std::vector<std::string>& shared() const { return shared_; }

 private:
  static constexpr std::size_t kNowhere = static_cast<std::size_t>(-1);
  /// A value that was seen. Equal values have the same `kind`.
  struct Seen {
    std::uint32_t kind = 0, values = 0;  // with those in it
  };
  struct Kind {
    bool shareable = false;  // it is long enough
    std::uint32_t times = 0;
    std::size_t place = kNowhere;
  };

  class Numbers : public JsonSink {
   public:
    explicit Numbers(Sharing& of) : of_(of) {}
    void open(char bracket) override;
    void close() override;
    void key(std::string_view key) override;
    void put(const Json& scalar) override;

   private:
    struct Open {
      std::size_t seen = 0, length = 0;
      std::string key;  // equal for equal values
    };
    void number(Open&& value, bool long_is_shared);

    Sharing& of_;
    std::vector<Open> open_;
    friend class Sharing;
    std::unordered_map<std::string, std::uint32_t> kinds_;
  };
  class Writer;

  void count();

  Numbers numbers_{*this};
  std::vector<Kind> kinds_;
  std::vector<Seen> seen_;  // in the order in which they are written
  bool counted_ = false;
  std::size_t at_ = 0;  // in seen_
  std::vector<std::string> shared_;
};

/// True if a text refers to the list.
inline bool is_reference(const std::string& text) {
  return text.size() > 1 && text[0] == '$' && text[1] != '$';
}

}  // namespace tidemark
