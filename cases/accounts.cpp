#include "cases/accounts.h"

#include <algorithm>
#include <map>
#include <stdexcept>

namespace tidemark {
namespace {

/// The tensors of one symbol.
struct Summand {
  std::string text;
  double value = 0, bytes = 0;  // of the symbol, of all
};

constexpr Bytes kMiB = 1 << 20;

Bytes rounded(Bytes bytes) { return (bytes + 511) / 512 * 512; }

Summand summand(const std::string& symbol, const std::map<Bytes, std::int64_t>& counts) {
  Summand all{symbol};
  for (const auto& [bytes, count] : counts) all.bytes += static_cast<double>(bytes * count);
  all.value = all.bytes;
  const auto& [bytes, count] = *counts.begin();
  if (counts.size() > 1 || count == 1 || symbol == "rest") return all;
  all.text = std::to_string(count) + "*" + symbol;
  all.value = static_cast<double>(bytes);
  return all;
}

}  // namespace

Formula sum_of(const reference::Account& account, Statistic statistic) {
  const bool rounds = statistic != Statistic::requested;
  std::map<std::string, std::map<Bytes, std::int64_t>> symbols;
  for (const auto& [symbol, bytes, count] : account.terms) {
    if (count == 0) continue;
    if (symbol.empty())
      throw std::logic_error("an allocation of " + std::to_string(bytes) +
                             " bytes has no symbol in the plan");
    symbols[std::string(symbol)][rounds ? rounded(bytes) : bytes] += count;
  }
  std::vector<Summand> summands;
  Formula sum;
  for (const auto& [symbol, counts] : symbols) {
    summands.push_back(summand(symbol, counts));
    sum.values[symbol] = summands.back().value;
  }
  std::ranges::stable_sort(summands, [](const Summand& a, const Summand& b) {
    const bool rests = a.text == "rest", other = b.text == "rest";
    return rests != other ? rests : a.bytes > b.bytes;
  });
  if (rounds && account.unsplit > 0) {
    summands.push_back({"unsplit"});
    sum.values["unsplit"] = static_cast<double>(account.unsplit);
  }
  for (const auto& each : summands) sum.text += (sum.text.empty() ? "" : " + ") + each.text;
  if (sum.text.empty()) sum.text = "0";
  return sum;
}

Expectation accounted(Statistic statistic, const std::string& phase, bool at_end,
                      const reference::Account& account) {
  return {.statistic = statistic,
          .phase = phase,
          .formula = sum_of(account, statistic),
          .at_end = at_end,
          .basis = Basis::account,
          .where = at_end ? "" : account.where};
}

std::vector<Expectation> accounted(const std::string& phase,
                                   const reference::Allocator::Peaks& peaks) {
  return {accounted(Statistic::requested, phase, false, peaks.requested),
          accounted(Statistic::allocated, phase, false, peaks.allocated),
          accounted(Statistic::active, phase, false, peaks.active)};
}

std::vector<Expectation> accounted_at_end(const std::string& phase,
                                          const reference::Predicted::Accounts& accounts) {
  return {accounted(Statistic::requested, phase, true, accounts.active),
          accounted(Statistic::allocated, phase, true, accounts.allocated),
          accounted(Statistic::active, phase, true, accounts.active)};
}

Expectation accounted_at(const std::string& moment, Statistic statistic,
                         const reference::Account& account) {
  auto one = accounted(statistic, "", true, account);
  one.at_end = false;
  one.moment = moment;
  return one;
}

std::vector<Expectation> in_any_block(Expectation one, reference::Account account, Bytes widest) {
  account.unsplit = 0;
  one.formula = sum_of(account, one.statistic);
  Bytes large = 0;
  for (const auto& [symbol, bytes, count] : account.terms) {
    if (count == 0 || rounded(bytes) <= kMiB) continue;
    large += count;
    one.unit = one.unit == 0 ? rounded(bytes) : std::min(one.unit, rounded(bytes));
  }
  one.slack = widest > 0 ? widest - static_cast<Bytes>(one.formula.evaluate()) : large * kMiB;
  if (one.slack * kSharpness > one.unit) return {};
  if (one.slack > 0)
    one.why = "a block over 1 MiB may keep up to 1 MiB that the allocator does not split off";
  return {one};
}

}  // namespace tidemark
