#include "harness/record/formula_parts.h"

#include <cctype>
#include <initializer_list>

namespace tidemark {
namespace {

constexpr int kDeepest = 100;  // of parts in parts

class FormulaParser {
 public:
  explicit FormulaParser(std::string_view text) : text_(text) {}

  /// The parts; the last is the whole.
  std::vector<Part> run() {
    conditional();
    skip_space();
    if (at_ != text_.size()) throw NoExpression();
    return std::move(all_);
  }

  struct NoExpression {};

 private:
  void skip_space() {
    while (at_ < text_.size() && std::isspace(static_cast<unsigned char>(text_[at_])) != 0) ++at_;
  }
  static bool in_name(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
  }

  /// The word at this place; empty where there is none.
  std::string_view word() {
    skip_space();
    std::size_t end = at_;
    while (end < text_.size() && in_name(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  /// True, and goes on behind it, if `sign` is here.
  bool take(std::string_view sign) {
    skip_space();
    if (in_name(sign[0]) ? word() != sign : !text_.substr(at_).starts_with(sign)) return false;
    end_ = at_ += sign.size();
    return true;
  }
  std::string_view take_any(std::initializer_list<std::string_view> signs) {
    for (const std::string_view sign : signs)
      if (take(sign)) return sign;
    return {};
  }
  void expect(std::string_view sign) {
    if (!take(sign)) throw NoExpression();
  }

  std::size_t add(std::size_t begin, PartKind kind, std::string_view text,
                  std::vector<std::size_t> parts) {
    all_.push_back({kind, text, std::move(parts), text_.substr(begin, end_ - begin)});
    return all_.size() - 1;
  }
  std::size_t start() {
    skip_space();
    return at_;
  }

  std::size_t conditional() {
    const Deeper deeper(*this);
    const std::size_t begin = start(), first = comparison();
    if (take("?")) {
      const std::size_t yes = conditional();
      expect(":");
      return add(begin, PartKind::condition, "", {first, yes, conditional()});
    }
    if (take("if")) {
      const std::size_t test = comparison();
      expect("else");
      return add(begin, PartKind::condition, "", {test, first, conditional()});
    }
    return first;
  }

  std::size_t comparison() {
    const std::size_t begin = start(), left = sum();
    const auto sign = take_any({"<=", ">=", "==", "!=", "<", ">"});
    return sign.empty() ? left : add(begin, PartKind::infix, sign, {left, sum()});
  }

  std::size_t sum() { return chain({"+", "-"}, &FormulaParser::product); }
  std::size_t product() { return chain({"*", "/"}, &FormulaParser::signed_one); }

  /// One after the other, from the left, with one of the signs between.
  std::size_t chain(std::initializer_list<std::string_view> signs,
                    std::size_t (FormulaParser::*next)()) {
    const std::size_t begin = start();
    std::size_t left = (this->*next)();
    for (auto sign = take_any(signs); !sign.empty(); sign = take_any(signs))
      left = add(begin, PartKind::infix, sign, {left, (this->*next)()});
    return left;
  }

  std::size_t signed_one() {
    const Deeper deeper(*this);
    const std::size_t begin = start();
    if (take("-")) return add(begin, PartKind::negative, "-", {signed_one()});
    if (take("+")) return signed_one();
    const std::size_t base = atom();
    return take_any({"**", "^"}).empty() ? base
                                         : add(begin, PartKind::infix, "^", {base, signed_one()});
  }

  std::size_t atom() {
    const std::size_t begin = start();
    if (take("(")) {
      const std::size_t inside = conditional();
      expect(")");
      return add(begin, PartKind::inside, "", {inside});
    }
    if (at_ < text_.size() &&
        (text_[at_] == '.' || std::isdigit(static_cast<unsigned char>(text_[at_]))))
      return number();
    const std::string_view name = word();
    if (name.empty() || name == "if" || name == "else") throw NoExpression();
    end_ = at_ += name.size();
    if (!take("(")) return add(begin, PartKind::name, name, {});
    std::vector<std::size_t> arguments;
    if (!take(")")) {
      do arguments.push_back(conditional());
      while (take(","));
      expect(")");
    }
    return add(begin, PartKind::call, name, std::move(arguments));
  }

  std::size_t number() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && (in_name(text_[at_]) || text_[at_] == '.')) {
      const bool exponent = text_[at_] == 'e' || text_[at_] == 'E';
      ++at_;
      if (exponent && at_ < text_.size() && (text_[at_] == '-' || text_[at_] == '+')) ++at_;
    }
    end_ = at_;
    return add(begin, PartKind::number, text_.substr(begin, at_ - begin), {});
  }

  struct Deeper {
    explicit Deeper(FormulaParser& parser) : parser_(parser) {
      if (++parser_.depth_ > kDeepest) throw NoExpression();
    }
    ~Deeper() { --parser_.depth_; }
    Deeper(const Deeper&) = delete;
    Deeper& operator=(const Deeper&) = delete;
    FormulaParser& parser_;
  };

  std::string_view text_;
  std::size_t at_ = 0, end_ = 0;  // end_: behind the last word or sign
  int depth_ = 0;
  std::vector<Part> all_;
};

}  // namespace

std::optional<std::vector<Part>> parts_of_formula(std::string_view text) try {
  return FormulaParser(text).run();
} catch (const FormulaParser::NoExpression&) {
  return std::nullopt;
}

}  // namespace tidemark
