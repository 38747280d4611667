#include "harness/judge/formula.h"

#include <muParser.h>

#include <bit>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <stdexcept>
#include <utility>

#include "harness/errors.h"

namespace tidemark {
namespace {

double block(double bytes) { return 512 * std::ceil(bytes / 512); }

double round_up(double bytes, double granule) { return granule * std::ceil(bytes / granule); }

// `a if c else b` is (a if c) else b: where the condition does not hold, `if` is this one number.
const double kNot = std::nan("1");
bool is_not(double value) {
  return std::bit_cast<std::uint64_t>(value) == std::bit_cast<std::uint64_t>(kNot);
}
double if_holds(double value, double condition) { return condition != 0 ? value : kNot; }
double or_else(double value, double other) { return is_not(value) ? other : value; }

mu::Parser with_functions() {
  mu::Parser parser;
  parser.DefineOprt("if", if_holds, mu::prLOR - 1, mu::oaLEFT);
  parser.DefineOprt("else", or_else, mu::prLOR - 2, mu::oaRIGHT);
  parser.DefineOprt("**", static_cast<double (*)(double, double)>(std::pow), mu::prPOW,
                    mu::oaRIGHT);
  parser.DefineFun("block", block);
  parser.DefineFun("roundup", round_up);
  parser.DefineFun("ceil", static_cast<double (*)(double)>(std::ceil));
  parser.DefineFun("floor", static_cast<double (*)(double)>(std::floor));
  return parser;
}

}  // namespace

double Formula::evaluate() const {
  try {
    thread_local mu::Parser parser = with_functions();  // to make one takes longer than to use it
    parser.ClearConst();
    for (const auto& [name, value] : values) parser.DefineConst(name, value);
    parser.SetExpr(text);
    double result = parser.Eval();
    if (!std::isfinite(result))
      throw std::invalid_argument(on_one_line("formula '" + text + "' is not finite"));
    return result;
  } catch (const mu::Parser::exception_type& error) {
    throw std::invalid_argument(on_one_line("formula '" + text + "': " + error.GetMsg()));
  }
}

Formula only_used(const Formula& formula) {
  Formula result{formula.text, {}};
  std::string name;
  for (const char c : formula.text + " ") {
    if (std::isalnum(static_cast<unsigned char>(c)) || c == '_')
      name += c;
    else if (const auto found = formula.values.find(std::exchange(name, {}));
             found != formula.values.end())
      result.values.insert(*found);
  }
  return result;
}

}  // namespace tidemark
