#include "harness/record/formula.h"

#include <fmt/format.h>

#include <array>
#include <cctype>
#include <stdexcept>
#include <string_view>

#include "harness/record/formula_parts.h"
#include "harness/record/one_line.h"
#include "harness/record/rational.h"

namespace tidemark {
namespace {

constexpr Whole kLargestExponent = 64;  // and the smallest, below 0

class Evaluation {
 public:
  explicit Evaluation(const Formula& formula) : formula_(formula) {
    auto parts = parts_of_formula(formula_.text);
    if (!parts) wrong("is not an expression");
    all_ = std::move(*parts);
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
