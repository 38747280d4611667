#include "reports/curves/log_line.h"

#include <algorithm>
#include <string>
#include <vector>

#include "harness/record/number.h"
#include "reports/curves/formats.h"

namespace tidemark {
namespace {

constexpr std::string_view kBlank = " \t'\"`", kBreaks = "|,;[]{}()";

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool all_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

/// The line without what a terminal obeys: colours, moves of the cursor (ECMA-48, 5.4: a control
/// sequence ends at the first character from @ to ~ behind its bracket).
std::string plain(std::string_view line) {
  std::string out;
  out.reserve(line.size());
  for (std::size_t i = 0; i < line.size(); ++i) {
    if (line[i] != '\x1b') {
      out += line[i];
      continue;
    }
    if (i + 1 < line.size() && line[i + 1] == '[') ++i;
    while (++i < line.size() && (line[i] < '@' || line[i] > '~')) {
    }
  }
  return out;
}

/// A word, or one of: '|' where names end, '=' between a name and its value.
struct Token {
  char kind = 'w';
  std::string_view text;
};

std::vector<Token> tokens_of(std::string_view line) {
  std::vector<Token> out;
  const auto at = [&](std::size_t i) { return i < line.size() ? line[i] : '\0'; };
  const auto among_digits = [&](std::size_t i) {
    return i > 0 && is_digit(line[i - 1]) && is_digit(at(i + 1));
  };
  const auto in_word = [&](std::size_t i) {
    const char c = line[i];
    if (c == ':' || c == ',') return among_digits(i);  // of a time, of thousands
    return c != '=' && c != '\r' && kBlank.find(c) == std::string_view::npos &&
           kBreaks.find(c) == std::string_view::npos;
  };
  for (std::size_t i = 0; i < line.size();) {
    std::size_t end = i;
    while (end < line.size() && in_word(end)) ++end;
    if (end > i) {
      const std::string_view word = line.substr(i, end - i);
      out.push_back({word == "-" || word == "--" ? '|' : 'w', word});
      i = end;
      continue;
    }
    const char c = line[i];
    if (c == ':' || c == '=') out.push_back({'=', {}});
    if (c == '\t') out.push_back({'|', {}});
    if (c == '(') {  // a unit is of the name: "iter time (s): 0.5"
      const auto close =
          line.find_first_not_of("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz/", i + 1);
      if (close > i + 1 && at(close) == ')' && !out.empty() && out.back().kind == 'w') {
        out.push_back({'w', line.substr(i, close + 1 - i)});
        i = close + 1;
        continue;
      }
    }
    // "Epoch: [0]" and "Step [5/600]" name what is in the bracket.
    const auto inner = line.find_first_not_of(' ', i + 1);
    const bool names = c == '[' && inner < line.size() && is_digit(line[inner]);
    if (kBreaks.find(c) != std::string_view::npos && !names) out.push_back({'|', {}});
    ++i;
  }
  return out;
}

/// Words of a name that ends with a step's and is none: "total steps: 300".
bool counts_others(std::string_view word) {
  constexpr std::string_view kOthers[] = {"total", "max",   "maximum", "num",      "number",
                                          "of",    "per",   "warmup",  "every",    "remaining",
                                          "save",  "saves", "logging", "gradient", "accumulation"};
  return std::ranges::find(kOthers, word) != std::end(kOthers);
}

/// The words of a name and what they mean.
class Name {
 public:
  void add(std::string_view word) { words_.push_back(word); }
  void clear() { words_.clear(); }
  bool empty() const { return words_.empty(); }
  std::string text() const {
    std::string out;
    for (const std::string_view word : words_) (out += out.empty() ? "" : " ") += word;
    return out;
  }
  bool of_loss() const { return lower(text()).find("loss") != std::string::npos; }
  bool of_epoch() const { return !words_.empty() && lower(words_.back()) == "epoch"; }
  bool of_batch() const { return !words_.empty() && lower(words_.back()) == "batch"; }
  /// The name of steps that it ends with, or none.
  std::optional<std::string> of_step() const {
    for (std::size_t from = words_.size() - std::min<std::size_t>(words_.size(), 2);
         from < words_.size(); ++from) {
      std::string name;
      for (std::size_t i = from; i < words_.size(); ++i)
        (name += name.empty() ? "" : "_") += lower(words_[i]);
      if (!names_step(name)) continue;
      for (std::size_t i = 0; i < from; ++i)
        if (counts_others(lower(words_[i]))) return std::nullopt;
      return name;
    }
    return std::nullopt;
  }
  /// What the losses of the line begin with where its step is one of a validation.
  std::string prefix() const {
    const bool validates = words_.size() > 1 && words_[words_.size() - 2].starts_with("valid");
    return validates ? std::string(words_[words_.size() - 2]) + " " : "";
  }

 private:
  std::vector<std::string_view> words_;
};

class Reader {
 public:
  explicit Reader(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  LogLine read() {
    for (; at_ < tokens_.size(); ++at_) {
      const Token& token = tokens_[at_];
      if (token.kind == '|') {
        name_.clear(), assigned_ = false;
      } else if (token.kind == '=') {
        assigned_ = !name_.empty();
      } else if (!take_value(token.text)) {
        if (assigned_) name_.clear(), assigned_ = false;
        name_.add(token.text);
      }
    }
    if (steps_.empty()) return std::move(out_);
    const auto meant = std::ranges::min_element(
        steps_, {}, [](const auto& one) { return rank_of_step(one.first); });
    out_.step = meant->second;
    for (auto& [name, text] : losses_) out_.fields.emplace_back(name, text), out_.loss = true;
    return std::move(out_);
  }

 private:
  /// The total that follows: "/ 300" or "of 300".
  std::optional<std::string_view> total() {
    if (at_ + 1 >= tokens_.size() || tokens_[at_ + 1].kind != 'w') return std::nullopt;
    std::string_view next = tokens_[at_ + 1].text;
    if (next == "of") next = "/";
    if (!next.starts_with('/')) return std::nullopt;
    std::size_t used = 1;
    next.remove_prefix(1);
    if (next.empty() && at_ + 2 < tokens_.size() && tokens_[at_ + 2].kind == 'w')
      next = tokens_[at_ + 2].text, used = 2;
    if (!all_digits(next)) return std::nullopt;
    at_ += used;
    return next;
  }

  /// False where the word is no value.
  bool take_value(std::string_view word) {
    std::optional<std::string_view> of;
    std::string_view text = word;
    if (const auto part = part_of_whole(word)) {
      text = part->first, of = part->second;
      if (of->empty() && at_ + 1 < tokens_.size() && tokens_[at_ + 1].kind == 'w')
        of = tokens_[++at_].text;
      if (!all_digits(*of)) return false;
    }
    // "number of nan iterations": a word between others is a value where it looks like one.
    const bool looks = std::string_view("+-.0123456789").find(text[0]) != std::string_view::npos;
    const bool value = parse_number(text).has_value();
    const bool missing = assigned_ && is_missing(text);
    if (!(looks || assigned_ || name_.of_loss()) || !(value || missing)) {
      if (!assigned_ || !name_.of_loss() || looks) return false;
      losses_.emplace_back(prefix_ + name_.text(), text);
      name_.clear(), assigned_ = false;
      return true;
    }
    if (!of) of = total();
    keep(text, of);
    name_.clear(), assigned_ = false;
    return true;
  }

  void keep(std::string_view text, std::optional<std::string_view> of) {
    const auto count = parse_step(text);
    if (name_.empty()) {
      if (of && count && !out_.done) out_.done = count, out_.of = parse_step(*of);
    } else if (name_.of_epoch()) {
      out_.epoch = count;
    } else if (const auto step = name_.of_step(); step && count) {
      steps_.emplace_back(*step, *count);
      prefix_ = name_.prefix();
    } else if (name_.of_batch() && of && count) {
      steps_.emplace_back("step", *count);
    } else {
      out_.fields.emplace_back(prefix_ + name_.text(), text);
      out_.loss = out_.loss || name_.of_loss();
    }
  }

  std::vector<Token> tokens_;
  std::size_t at_ = 0;
  Name name_;
  bool assigned_ = false;  // a sign stands between the name and what follows
  std::string prefix_;
  std::vector<std::pair<std::string, std::int64_t>> steps_;
  Record losses_;  // whose values are no numbers
  LogLine out_;
};

}  // namespace

std::optional<std::pair<std::string_view, std::string_view>> part_of_whole(std::string_view word) {
  const auto slash = word.find('/');
  if (slash == std::string_view::npos || !all_digits(word.substr(0, slash))) return std::nullopt;
  return std::pair{word.substr(0, slash), word.substr(slash + 1)};
}

LogLine log_line(std::string_view coloured) {
  const std::string line = plain(coloured);
  const auto dictionary = line.find("{'");
  const bool printed = dictionary != std::string::npos;
  LogLine out = Reader(tokens_of(std::string_view(line).substr(printed ? dictionary : 0))).read();
  out.dictionary = printed;
  return out;
}

}  // namespace tidemark
