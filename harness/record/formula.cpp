#include "harness/record/formula.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <stdexcept>
#include <string_view>

#include "harness/record/one_line.h"
#include "harness/record/rational.h"

namespace tidemark {
namespace {

constexpr int kDeepest = 100;           // of parts in parts
constexpr Whole kLargestExponent = 64;  // and the smallest, below 0

enum class PartKind { number, name, call, inside, negative, condition, infix };

/// A part of a formula. `parts` are places in the list of all parts; `text`: a name, an operator,
/// or all of a number.
struct Part {
  PartKind kind;
  std::string_view text;
  std::vector<std::size_t> parts;
  std::string_view source;  // all of it
};

class FormulaParser {
 public:
  explicit FormulaParser(std::string_view text) : text_(text) {}

  /// The parts; the last is the whole. None: the text is not an expression.
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

class Evaluation {
 public:
  explicit Evaluation(const Formula& formula) : formula_(formula) {
    try {
      all_ = FormulaParser(formula_.text).run();
    } catch (const FormulaParser::NoExpression&) {
      wrong("is not an expression");
    }
    for (const Part& part : all_)
      if (part.kind == PartKind::name && !formula_.values.contains(std::string(part.text)))
        wrong(fmt::format("has no value for {}", part.text));
  }

  double value() { return static_cast<double>(of(all_.size() - 1)); }

  std::vector<std::pair<std::string, double>> terms() {
    split(all_.size() - 1, false);
    return std::move(terms_);
  }

 private:
  [[noreturn]] void wrong(const std::string& what) const {
    throw std::invalid_argument(one_line("formula '" + formula_.text + "' " + what));
  }
  Rational checked(const std::optional<Rational>& number) const {
    if (!number) wrong("has a number of more than 127 bits");
    return *number;
  }
  static Rational whole(Whole number) { return *Rational::of(number, 1); }

  void split(std::size_t at, bool negative) {
    const Part& part = all_[at];
    if (part.kind == PartKind::infix && (part.text == "+" || part.text == "-")) {
      split(part.parts[0], negative);
      split(part.parts[1], negative != (part.text == "-"));
      return;
    }
    const auto value = static_cast<double>(of(at));
    terms_.emplace_back((negative ? "-" : "") + std::string(part.source),
                        negative ? -value : value);
  }

  Rational of(std::size_t at) {
    const Part& part = all_[at];
    switch (part.kind) {
      case PartKind::number:
        return number(part.text);
      case PartKind::name:
        return checked(Rational::of(formula_.values.at(std::string(part.text))));
      case PartKind::inside:
        return of(part.parts[0]);
      case PartKind::negative:
        return times(whole(-1), of(part.parts[0]));
      case PartKind::condition:
        return of(part.parts[of(part.parts[0]) == Rational() ? 2 : 1]);
      case PartKind::call:
        return call(part);
      case PartKind::infix:
        break;
    }
    return infix(part.text, of(part.parts[0]), of(part.parts[1]));
  }

  Rational number(std::string_view text) const {
    const auto refuse = [&] { wrong(fmt::format("has '{}', which is not a number", text)); };
    Whole digits = 0;
    int exponent = 0;
    bool point = false, any = false;
    std::size_t i = 0;
    for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
      if (text[i] == '.' && !std::exchange(point, true)) continue;
      if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) refuse();
      if (__builtin_mul_overflow(digits, Whole{10}, &digits) ||
          __builtin_add_overflow(digits, Whole{text[i] - '0'}, &digits))
        wrong("has a number of more than 127 bits");
      exponent -= point ? 1 : 0;
      any = true;
    }
    if (!any) refuse();
    if (i < text.size()) {
      int given = 0, sign = 1;
      if (++i < text.size() && (text[i] == '-' || text[i] == '+')) sign = text[i++] == '-' ? -1 : 1;
      if (i == text.size() || text.size() - i > 3) refuse();
      for (; i < text.size(); ++i) {
        if (std::isdigit(static_cast<unsigned char>(text[i])) == 0) refuse();
        given = 10 * given + (text[i] - '0');
      }
      exponent += sign * given;
    }
    return times(whole(digits), power(whole(10), exponent));
  }

  Rational times(const Rational& a, const Rational& b) const { return checked(a * b); }
  Rational minus(const Rational& a, const Rational& b) const {
    return checked(a + times(whole(-1), b));
  }

  Rational power(const Rational& base, Whole exponent) const {
    if (exponent < 0 && base == Rational()) wrong("divides by 0");
    const Rational factor = exponent < 0 ? checked(base.inverse()) : base;
    Rational out = whole(1);
    for (Whole i = 0; i < (exponent < 0 ? -exponent : exponent); ++i) out = times(out, factor);
    return out;
  }

  bool less(const Rational& a, const Rational& b) const { return minus(a, b).above() < 0; }

  Rational infix(std::string_view sign, const Rational& a, const Rational& b) const {
    if (sign == "+") return checked(a + b);
    if (sign == "-") return minus(a, b);
    if (sign == "*") return times(a, b);
    if (sign == "/") {
      if (b == Rational()) wrong("divides by 0");
      return times(a, checked(b.inverse()));
    }
    if (sign == "^") {
      if (!b.whole() || b.above() > kLargestExponent || b.above() < -kLargestExponent)
        wrong(fmt::format("has the exponent {}", static_cast<double>(b)));
      return power(a, b.above());
    }
    const bool holds = sign == "=="   ? a == b
                       : sign == "!=" ? a != b
                       : sign == "<"  ? less(a, b)
                       : sign == ">"  ? less(b, a)
                       : sign == "<=" ? !less(b, a)
                                      : !less(a, b);
    return whole(holds ? 1 : 0);
  }

  Rational call(const Part& part) {
    const std::string_view name = part.text;
    const bool any_number = name == "min" || name == "max";
    const std::size_t wanted = name == "roundup" ? 2 : 1;
    if (!any_number && name != "ceil" && name != "floor" && name != "block" && name != "roundup")
      wrong(
          fmt::format("has the function {}, which is none: there are min, max, ceil, floor, "
                      "block and roundup",
                      name));
    if (any_number ? part.parts.empty() : part.parts.size() != wanted)
      wrong(fmt::format("gives {} {} arguments", name, part.parts.size()));
    Rational first = of(part.parts[0]);
    if (any_number) {
      for (std::size_t i = 1; i < part.parts.size(); ++i)
        if (const Rational next = of(part.parts[i]); less(next, first) == (name == "min"))
          first = next;
      return first;
    }
    if (name == "ceil") return up(first);
    if (name == "floor") return first.floor();
    const Rational granule = name == "block" ? whole(512) : of(part.parts[1]);
    if (!less(Rational(), granule)) wrong("rounds up to a granule that is not positive");
    return times(granule, up(times(first, checked(granule.inverse()))));
  }
  Rational up(const Rational& number) const {
    return times(whole(-1), times(whole(-1), number).floor());
  }

  const Formula& formula_;
  std::vector<Part> all_;
  std::vector<std::pair<std::string, double>> terms_;
};

}  // namespace

double Formula::evaluate() const { return Evaluation(*this).value(); }

std::vector<std::pair<std::string, double>> Formula::terms() const {
  return Evaluation(*this).terms();
}

Formula only_used(const Formula& formula) {
  Formula result{formula.text, {}};
  std::string name;
  for (const char c : formula.text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_')
      name += c;
    else if (const auto value = formula.values.find(std::exchange(name, {}));
             value != formula.values.end())
      result.values.insert(*value);
  }
  return result;
}

}  // namespace tidemark
