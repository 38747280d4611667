#include "harness/record/shared.h"

#include <fmt/format.h>

#include <deque>
#include <optional>
#include <utility>

namespace tidemark {
namespace {

constexpr std::size_t kShortest = 24;  // characters; what is shorter stays where it is

}  // namespace

void Sharing::Numbers::open(char bracket) {
  open_.push_back({of_.seen_.size(), 0, std::string(1, bracket)});
  of_.seen_.push_back({});
}

void Sharing::Numbers::key(std::string_view key) {
  (open_.back().key += key) += '\n';
  open_.back().length += key.size() + 3;
}

void Sharing::Numbers::put(const Json& scalar) {
  std::string text = scalar.dump(-1, ' ', false, Json::error_handler_t::replace);
  const std::size_t length = text.size();
  of_.seen_.push_back({});
  number({of_.seen_.size() - 1, length, std::move(text)}, scalar.is_string());
}

void Sharing::Numbers::close() {
  Open value = std::move(open_.back());
  open_.pop_back();
  number(std::move(value), true);
}

void Sharing::Numbers::number(Open&& value, bool long_is_shared) {
  const auto next = static_cast<std::uint32_t>(of_.kinds_.size());
  const std::size_t length = value.length, seen = value.seen;
  const auto [at, fresh] = kinds_.try_emplace(std::move(value.key), next);
  if (fresh) of_.kinds_.push_back({long_is_shared && length >= kShortest});
  of_.seen_[seen] = {at->second, static_cast<std::uint32_t>(of_.seen_.size() - seen)};
  if (open_.empty()) return;
  open_.back().key += fmt::format("{},", at->second);
  open_.back().length += length + 1;
}

/// Inside of what has come up before nothing counts again.
void Sharing::count() {
  numbers_.kinds_ = {};
  for (std::size_t at = 0; at < seen_.size();) {
    Kind& kind = kinds_[seen_[at].kind];
    at += kind.shareable && ++kind.times > 1 ? seen_[at].values : 1;
  }
  counted_ = true;
}

/// Writes a value with references in it.
class Sharing::Writer : public JsonSink {
 public:
  Writer(Sharing& of, GrowingText& out) : of_(of), lines_(1) { lines_[0].line.emplace(out); }

  void open(char bracket) override {
    if (left_out_ > 0) {
      ++left_out_;
    } else if (begins(1)) {
      line().open(bracket);
      ++lines_.back().depth;
    }
  }
  void close() override {
    if (left_out_ > 0) {
      --left_out_;
      return;
    }
    line().close();
    if (--lines_.back().depth == 0) end();
  }
  void key(std::string_view key) override {
    if (left_out_ == 0) line().key(key);
  }
  void put(const Json& scalar) override {
    if (left_out_ > 0 || !begins(0)) return;
    const auto* text = scalar.is_string() ? &scalar.get_ref<const std::string&>() : nullptr;
    line().put(text != nullptr && text->starts_with('$') ? Json("$" + *text) : scalar);
    if (lines_.back().depth == 0) end();
  }

 private:
  /// A text that is written: the value itself, or one that others refer to.
  struct Line {
    std::size_t depth = 0;  // of what is open in it
    std::uint32_t kind = 0;
    std::string text;
    Put put;
    std::optional<GrowingText> made;
    std::optional<JsonLine> line;
  };

  JsonLine& line() { return *lines_.back().line; }
  void refer(std::size_t place) { line().put(fmt::format("${}", place)); }

  /// False where a reference stands for the value, which is left out, `depth` deep.
  bool begins(std::size_t depth) {
    const auto [number, values] = of_.seen_[of_.at_];
    const Kind& kind = of_.kinds_[number];
    if (!kind.shareable || kind.times < 2) {
      ++of_.at_;
      return true;
    }
    if (kind.place != kNowhere) {
      of_.at_ += values;
      refer(kind.place);
      left_out_ = depth;
      return false;
    }
    ++of_.at_;
    Line& fresh = lines_.emplace_back();
    fresh.kind = number;
    fresh.put = [&fresh](std::string_view part) { fresh.text += part; };
    fresh.line.emplace(fresh.made.emplace(fresh.put));
    return true;
  }
  /// The value is written whole.
  void end() {
    if (lines_.size() == 1) return;
    Line& done = lines_.back();
    done.made->finish();
    const std::size_t place = of_.kinds_[done.kind].place = of_.shared_.size();
    of_.shared_.push_back(std::move(done.text));
    lines_.pop_back();
    refer(place);
  }

  Sharing& of_;
  std::deque<Line> lines_;    // the last is being written
  std::size_t left_out_ = 0;  // depth in a value that is left out
};

void Sharing::write(GrowingText& out, const PutJson& value) {
  if (!counted_) count();
  Writer writer(*this, out);
  value(writer);
}

}  // namespace tidemark
