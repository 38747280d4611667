#include "harness/record/terms.h"

#include <map>
#include <stdexcept>

namespace tidemark {
namespace {

/// Characters that are evaluated for one formula: more than a reader reads. That of a foreign
/// record may be of any length.
constexpr std::size_t kMost = 1'000'000;

/// The symbol of a value's name; null where it is of none.
const Symbol* symbol_of(const std::string& name, const std::vector<Symbol>& symbols) {
  const Symbol* best = nullptr;
  for (const Symbol& symbol : symbols) {
    if (name == symbol.name) return &symbol;
    const bool of_variant = name.starts_with(symbol.name + "_");
    if (of_variant && (best == nullptr || symbol.name.size() > best->name.size())) best = &symbol;
  }
  return best;
}

/// An amount by the name that the formula has for it.
struct Amount {
  std::string name;
  double times = 0, each = 0;
};

/// Amounts of one symbol as terms: of two, as often added as taken away, the difference.
void add_terms(std::vector<Term>& all, const Symbol& symbol, const std::vector<Amount>& amounts) {
  if (amounts.size() == 2 && amounts[0].times == -amounts[1].times) {
    const double bytes = amounts[0].times * (amounts[0].each - amounts[1].each);
    if (bytes != 0) all.push_back({&symbol, bytes < 0 ? -1.0 : 1.0, bytes});
    return;
  }
  for (const Amount& one : amounts)
    if (one.times != 0 && one.each != 0) all.push_back({&symbol, one.times, one.times * one.each});
}

}  // namespace

std::optional<std::vector<Term>> terms_of(const Formula& formula,
                                          const std::vector<Symbol>& symbols) try {
  Formula probe = formula;
  std::map<const Symbol*, std::vector<Amount>> amounts;
  if (formula.text.size() * (formula.values.size() + symbols.size()) > kMost) return std::nullopt;
  for (auto& [name, value] : probe.values) {
    const Symbol* symbol = symbol_of(name, symbols);
    if (symbol == nullptr || symbol->kinds.empty()) continue;
    amounts[symbol].push_back({name, 0, value});
    value = 0;
  }
  const double none = probe.evaluate();
  std::vector<Term> all;
  double sum = 0;
  for (const Symbol& symbol : symbols) {
    if (!amounts.contains(&symbol)) continue;
    for (Amount& one : amounts[&symbol]) {
      probe.values[one.name] = 1;
      one.times = probe.evaluate() - none;
      probe.values[one.name] = 0;
    }
    add_terms(all, symbol, amounts[&symbol]);
  }
  for (const Term& term : all) sum += term.bytes;
  if (sum != formula.evaluate()) return std::nullopt;
  return all;
} catch (const std::invalid_argument&) {  // of a foreign record
  return std::nullopt;
}

}  // namespace tidemark
