#include "harness/record/reduced.h"

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/record/formula_parts.h"
#include "harness/record/rational.h"

namespace tidemark {
namespace {

constexpr std::size_t kMostProducts = 2000;

/// Factors in the order of the text, and how often.
struct Product {
  std::vector<std::string> factors;
  Rational times;
};
using Products = std::vector<Product>;

class Reduction {
 public:
  explicit Reduction(std::vector<Part> all) : all_(std::move(all)) {}

  /// The shorter of two texts, in which products are written out, or only those that are summands
  /// of the whole are added up. None: too many products, or a number that is not whole.
  std::optional<std::string> text() try {
    const std::string whole = text_of(summands_of(of(all_.size() - 1)));
    split(all_.size() - 1, false);
    std::vector<Summand> summands = summands_of(single_);
    for (const Several& one : several_) summands.push_back({one.minus, one.source});
    const std::string some = text_of(std::move(summands));
    return some.size() < whole.size() ? some : whole;
  } catch (const Beyond&) {
    return std::nullopt;
  }

 private:
  struct Beyond {};
  struct Summand {
    bool minus;
    std::string text;
  };
  /// A summand of several products, as it is written and in the order of their factors.
  struct Several {
    bool minus;
    std::string source;
    std::map<std::vector<std::string>, Whole> products;
  };

  /// Adds the summands of a part to `single_` and `several_`.
  void split(std::size_t at, bool minus) {
    const Part& part = all_[at];
    const bool sum = part.kind == PartKind::infix && (part.text == "+" || part.text == "-");
    const PartKind in = part.kind == PartKind::inside ? all_[part.parts[0]].kind : part.kind;
    if (sum) {
      split(part.parts[0], minus);
      split(part.parts[1], minus != (part.text == "-"));
      return;
    }
    if (part.kind == PartKind::negative) return split(part.parts[0], !minus);
    if (part.kind == PartKind::inside && in != PartKind::condition)
      return split(part.parts[0], minus);
    const Products products = of(at);
    if (products.size() < 2) {
      single_ = plus(std::move(single_), products, minus ? minus_one() : one());
      return;
    }
    Several own{minus, std::string(part.source), {}};
    for (Product each : products) {
      std::ranges::sort(each.factors);
      if (!each.times.whole()) throw Beyond();
      own.products[each.factors] = each.times.above();
    }
    const auto other = std::ranges::find_if(several_, [&](const Several& each) {
      return each.minus != minus && each.products == own.products;
    });
    if (other == several_.end())
      several_.push_back(std::move(own));
    else
      several_.erase(other);
  }

  static Rational must(const std::optional<Rational>& number) {
    if (!number) throw Beyond();
    return *number;
  }
  static Products constant(const Rational& number) { return {{{}, number}}; }
  static Rational one() { return must(Rational::of(Whole{1}, Whole{1})); }
  static Rational minus_one() { return must(Rational::of(Whole{-1}, Whole{1})); }

  /// Equal products become one; those that cancel go.
  static Products added(const Products& all) {
    Products sum;
    std::map<std::vector<std::string>, std::size_t> places;
    for (const Product& one : all) {
      auto key = one.factors;
      std::ranges::sort(key);
      const auto [place, fresh] = places.emplace(std::move(key), sum.size());
      if (fresh)
        sum.push_back(one);
      else
        sum[place->second].times = must(sum[place->second].times + one.times);
    }
    std::erase_if(sum, [](const Product& one) { return one.times == Rational(); });
    return sum;
  }

  static Products times(const Products& left, const Products& right) {
    if (left.size() * right.size() > kMostProducts) throw Beyond();
    Products all;
    for (const Product& a : left)
      for (const Product& b : right) {
        all.push_back({a.factors, must(a.times * b.times)});
        all.back().factors.insert(all.back().factors.end(), b.factors.begin(), b.factors.end());
      }
    return added(all);
  }

  static Products plus(Products left, const Products& right, const Rational& sign) {
    if (left.size() + right.size() > kMostProducts) throw Beyond();
    for (const Product& one : right) left.push_back({one.factors, must(one.times * sign)});
    return added(left);
  }

  static Products factor(std::string text) { return {{{std::move(text)}, one()}}; }

  Products of(std::size_t at) const {
    const Part& part = all_[at];
    switch (part.kind) {
      case PartKind::number:
        return number(part.text);
      case PartKind::name:
      case PartKind::call:
        return factor(std::string(part.source));
      case PartKind::inside:
        return of(part.parts[0]);
      case PartKind::negative:
        return times(constant(minus_one()), of(part.parts[0]));
      case PartKind::condition:
        break;
      case PartKind::infix:
        if (part.text == "+" || part.text == "-")
          return plus(of(part.parts[0]), of(part.parts[1]), part.text == "+" ? one() : minus_one());
        if (part.text == "*") return times(of(part.parts[0]), of(part.parts[1]));
        break;
    }
    return factor("(" + std::string(part.source) + ")");
  }

  static Products number(std::string_view text) {
    Whole value = 0;
    if (text.size() > 18 || text.find_first_not_of("0123456789") != std::string_view::npos)
      throw Beyond();
    for (const char digit : text) value = 10 * value + (digit - '0');
    return constant(must(Rational::of(value, Whole{1})));
  }

  /// Products by their last factor, in the order in which these come first.
  static std::vector<std::pair<std::string, Products>> collected(const Products& all) {
    std::vector<std::pair<std::string, Products>> out;
    for (const Product& one : all) {
      const std::string last = one.factors.empty() ? "" : one.factors.back();
      auto found = std::ranges::find(out, last, &std::pair<std::string, Products>::first);
      if (found == out.end()) found = out.insert(out.end(), {last, {}});
      found->second.push_back(one);
      if (!last.empty()) found->second.back().factors.pop_back();
    }
    for (auto& [last, sum] : out)  // a plain number is the last
      std::ranges::stable_partition(sum, [](const Product& one) { return !one.factors.empty(); });
    return out;
  }

  static bool below_zero(const Rational& number) { return number.above() < 0; }

  /// Of a product without its sign; "1" only where nothing else is there.
  static std::string text_of(const Product& product) {
    const Whole above = product.times.above();
    if (!product.times.whole()) throw Beyond();
    const auto times = static_cast<unsigned long long>(above < 0 ? -above : above);
    std::string text = times == 1 && !product.factors.empty() ? "" : std::to_string(times);
    for (const std::string& one : product.factors) text += (text.empty() ? "" : "*") + one;
    return text;
  }
  static std::string text_of(const Products& sum, bool turned) {
    std::string text;
    for (const Product& one : sum) {
      const bool minus = below_zero(one.times) != turned;
      text += text.empty() ? (minus ? "-" : "") : (minus ? " - " : " + ");
      text += text_of(one);
    }
    return text;
  }
  static std::vector<Summand> summands_of(const Products& all) {
    std::vector<Summand> out;
    for (auto& [last, sum] : collected(all)) {
      const bool minus = below_zero(sum.front().times);
      if (sum.size() > 1) {
        out.push_back({minus, "(" + text_of(sum, minus) + ")" + (last.empty() ? "" : "*" + last)});
        continue;
      }
      if (!last.empty()) sum.front().factors.push_back(last);
      out.push_back({minus, text_of(sum.front())});
    }
    return out;
  }
  /// What is taken away stands at the end.
  static std::string text_of(std::vector<Summand> all) {
    std::ranges::stable_partition(all, [](const Summand& one) { return !one.minus; });
    std::string text;
    for (const Summand& one : all) {
      text += text.empty() ? (one.minus ? "-" : "") : (one.minus ? " - " : " + ");
      text += one.text;
    }
    return text.empty() ? "0" : text;
  }

  std::vector<Part> all_;
  Products single_;  // summands of one product
  std::vector<Several> several_;
};

}  // namespace

Formula reduced(const Formula& formula) {
  auto parts = parts_of_formula(formula.text);
  if (!parts) return formula;
  const auto text = Reduction(std::move(*parts)).text();
  if (!text || text->size() >= formula.text.size()) return formula;
  return only_used({*text, formula.values});
}

}  // namespace tidemark
