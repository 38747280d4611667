#include "cases/zero_bubble_detach/ledger.h"

#include <utility>

namespace tidemark::zero_bubble_detach {

Ledger::Ledger(const Tensors& tensors, std::map<std::string, Terms> parts)
    : parts_(std::move(parts)) {
  constexpr Bytes kMiB = 1 << 20;
  for (const auto& [symbol, each] : tensors) {
    auto& [requested, rounded, unsplit] = bytes_[symbol];
    for (const Bytes bytes : each) {
      const Bytes granules = (bytes + 511) / 512 * 512;
      requested += static_cast<double>(bytes);
      rounded += static_cast<double>(granules);
      unsplit += static_cast<double>(granules + (granules > kMiB ? kMiB : 0));
    }
  }
}

void Ledger::add(const Terms& terms, double count) {
  for (const auto& [symbol, n] : terms) now_[symbol] += count * n;
}

void Ledger::open(const std::string& symbol) {
  drop(symbol);
  add(parts_.at(symbol));
}

void Ledger::close(const std::string& symbol) {
  take(symbol);
  add(parts_.at(symbol), -1);
}

void Ledger::moment(const std::string& where) {
  std::array<double, 3> sums{};
  for (const auto& [symbol, count] : now_) {
    if (count == 0) continue;
    const auto& bytes = bytes_.at(symbol);
    for (std::size_t i = 0; i < sums.size(); ++i) sums[i] += count * bytes[i];
  }
  for (std::size_t i = 0; i < sums.size(); ++i)
    if (sums[i] > highest_[i].bytes) highest_[i] = {where, now_, sums[i]};
}

Terms Ledger::in_parts() const {
  Terms all;
  for (const auto& [symbol, count] : now_) {
    if (const auto found = parts_.find(symbol); found != parts_.end()) {
      for (const auto& [part, n] : found->second) all[part] += count * n;
    } else {
      all[symbol] += count;
    }
  }
  std::erase_if(all, [](const auto& one) { return one.second == 0; });
  return all;
}

}  // namespace tidemark::zero_bubble_detach
