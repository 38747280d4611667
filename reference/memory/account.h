// Accounts: memory that is alive at one moment of a plan, as a sum of named amounts.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace tidemark::reference {

/// Bytes of one allocation, and the symbol under which an account counts it. Where no account is
/// asked for, a plain number of bytes.
struct Amount {
  Amount(std::int64_t of = 0, std::string_view name = {}) : bytes(of), symbol(name) {}
  operator std::int64_t() const { return bytes; }

  std::int64_t bytes;
  std::string_view symbol;  // of a string that outlives the plan
};

/// The allocations that are alive at a moment, by symbol and requested bytes.
struct Account {
  struct Term {
    std::string_view symbol;
    std::int64_t bytes, count;
  };
  /// The place of an amount among the terms, which it gets if it has none.
  std::size_t place(const Amount& amount);

  std::vector<Term> terms;   // some of them with a count of 0
  std::int64_t unsplit = 0;  // bytes by which blocks are larger than what was asked for, rounded up
  std::string where;         // the plan's word for what it does at the moment
};

}  // namespace tidemark::reference
