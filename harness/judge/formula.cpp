#include "harness/judge/formula.h"

#include <muParser.h>

#include <cctype>
#include <cmath>
#include <stdexcept>
#include <utility>

#include "harness/errors.h"

namespace tidemark {
namespace {

double block(double bytes) { return 512 * std::ceil(bytes / 512); }

double round_up(double bytes, double granule) { return granule * std::ceil(bytes / granule); }

mu::Parser with_functions() {
  mu::Parser parser;
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
