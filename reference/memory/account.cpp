#include "reference/memory/account.h"

#include <algorithm>

namespace tidemark::reference {

std::size_t Account::place(const Amount& amount) {
  const auto match = std::ranges::find_if(terms, [&](const Term& term) {
    return term.bytes == amount.bytes && term.symbol == amount.symbol;
  });
  if (match != terms.end()) return static_cast<std::size_t>(match - terms.begin());
  terms.push_back({amount.symbol, amount.bytes, 0});
  return terms.size() - 1;
}

}  // namespace tidemark::reference
