#include "harness/judge/form.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <optional>
#include <utility>

namespace tidemark {
namespace {

constexpr Bytes kMinimum = 512, kMiB = Bytes{1} << 20;

Bytes to_multiple(Bytes bytes, Bytes granule) { return (bytes + granule - 1) / granule * granule; }

// Bytes that the allocator requests of cudaMalloc if no cached block fits (get_allocation_size).
Bytes segment_of(Bytes rounded) {
  return rounded < 10 * kMiB ? 20 * kMiB : to_multiple(rounded, 2 * kMiB);
}

}  // namespace

void append(std::vector<Expectation>& all, std::vector<Expectation> more) {
  std::ranges::move(more, std::back_inserter(all));
}

Alive::Alive(std::initializer_list<std::pair<std::string, std::int64_t>> terms) {
  for (const auto& [symbol, times] : terms) add(symbol, times);
}

void Alive::add(const std::string& symbol, std::int64_t times) {
  const auto term = std::ranges::find(terms_, symbol, &decltype(terms_)::value_type::first);
  if (term != terms_.end())
    term->second += times;
  else if (times != 0)
    terms_.emplace_back(symbol, times);
}

void Alive::add(const Alive& other, std::int64_t times) {
  for (const auto& [symbol, count] : other.terms_) add(symbol, times * count);
}

Alive Alive::operator+(const Alive& other) const {
  Alive all = *this;
  all.add(other);
  return all;
}

std::string Alive::text() const {
  std::string all;
  for (const auto& [symbol, times] : terms_) {
    if (times == 0) continue;
    if (!all.empty()) all += " + ";
    all += times == 1 ? symbol : std::to_string(times) + "*" + symbol;
  }
  return all;
}

void Vocabulary::count(const std::string& symbol, double number) {
  amounts_[symbol] = {number, number, number, number, 0};
}

void Vocabulary::tensors(const std::string& symbol, const std::vector<Bytes>& each) {
  Amount& amount = amounts_[symbol];
  for (const Bytes bytes : each) {
    if (bytes == 0) continue;
    const Bytes rounded = to_multiple(bytes, kMinimum);
    amount.requested += static_cast<double>(bytes);
    amount.rounded += static_cast<double>(rounded);
    if (rounded <= kMiB) continue;
    amount.large += 1;
    amount.smallest = amount.smallest == 0 ? rounded : std::min(amount.smallest, rounded);
    granule_ = std::gcd(std::gcd(granule_, rounded), segment_of(rounded));
  }
}

void Vocabulary::passing(const std::string& symbol, Bytes bytes) {
  const Bytes rounded = to_multiple(bytes, kMinimum);
  const double large = rounded > kMiB ? 1 : 0;
  amounts_[symbol] = {static_cast<double>(bytes), static_cast<double>(rounded), large, large, 0};
}

Vocabulary::Values Vocabulary::values(const FormMoment& moment, double Amount::*member) const {
  Values all = moment.counts;
  for (const auto& [name, amount] : amounts_) all.emplace(name, amount.*member);
  return all;
}

std::optional<Expectation> Vocabulary::highest(Statistic statistic,
                                               const std::vector<FormMoment>& moments) const {
  const bool rounds = statistic != Statistic::requested;
  const auto member = rounds ? &Amount::rounded : &Amount::requested;
  const bool divisible = granule_ == 0 || granule_ > kMiB;
  const auto remainders = divisible ? &Amount::passing : &Amount::large;
  const FormMoment* winner = nullptr;
  double low = 0, high = 0;
  for (const auto& moment : moments) {
    const double sum = Formula{moment.text, values(moment, member)}.evaluate();
    const double large = rounds ? Formula{moment.text, values(moment, remainders)}.evaluate() : 0;
    if (winner == nullptr || sum > low) winner = &moment, low = sum;
    high = std::max(high, sum + large * static_cast<double>(kMiB));
  }
  if (winner == nullptr) return std::nullopt;
  Expectation one{.statistic = statistic, .phase = {}, .formula = {}};
  one.formula = only_used({winner->text, values(*winner, member)});
  one.where = winner->where;
  one.slack = static_cast<Bytes>(high - low);
  if (one.slack == 0) return one;
  for (const auto& [symbol, value] : one.formula.values) {
    const auto amount = amounts_.find(symbol);
    if (amount == amounts_.end() || amount->second.smallest == 0) continue;
    one.unit =
        one.unit == 0 ? amount->second.smallest : std::min(one.unit, amount->second.smallest);
  }
  if (one.slack * kSharpness > one.unit) return std::nullopt;
  one.why = fmt::format(
      "a block over 1 MiB may keep up to 1 MiB that the allocator does not split off: at most "
      "{:.0f} MiB here, {:.1f} % of the smallest unit",
      static_cast<double>(one.slack) / static_cast<double>(kMiB),
      100 * static_cast<double>(one.slack) / static_cast<double>(one.unit));
  return one;
}

std::vector<Expectation> Vocabulary::forms(const std::string& phase, bool at_end,
                                           const std::vector<Statistic>& statistics,
                                           const std::vector<FormMoment>& moments) const {
  std::vector<Expectation> all;
  for (const Statistic statistic : statistics) {
    auto one = highest(statistic, moments);
    if (!one) continue;
    one->phase = phase;
    one->at_end = at_end;
    all.push_back(std::move(*one));
  }
  return all;
}

std::vector<Expectation> Vocabulary::forms_at(const std::string& moment,
                                              const std::vector<Statistic>& statistics,
                                              const FormMoment& alive) const {
  auto all = forms("", false, statistics, {alive});
  for (auto& one : all) one.moment = moment;
  return all;
}

Expectation replayed(Statistic statistic, const std::string& phase, bool at_end, Bytes bytes) {
  return {.statistic = statistic,
          .phase = phase,
          .formula = {"replay", {{"replay", static_cast<double>(bytes)}}},
          .at_end = at_end,
          .basis = Basis::replay};
}

}  // namespace tidemark
