// Frozen units, step by step, and the units that reduce their gradients.
#include <algorithm>
#include <map>

#include "cases/frozen_reshard/policy.h"

namespace tidemark::frozen_reshard {

bool has_adapters(FreezingPattern pattern) {
  return pattern == FreezingPattern::adapters || pattern == FreezingPattern::nested_adapters;
}

namespace {

bool frozen_layer(FreezingPattern pattern, std::int64_t layer, std::int64_t layers) {
  const bool even = layer % 2 == 0;
  const std::map<FreezingPattern, bool> some{
      {FreezingPattern::even, even},
      {FreezingPattern::mixed, even},
      {FreezingPattern::odd, !even},
      {FreezingPattern::prefix, layer < layers / 2},
      {FreezingPattern::suffix, layer >= layers - layers / 2},
      {FreezingPattern::all_but_first, layer > 0},
      {FreezingPattern::all_but_last, layer + 1 < layers}};
  const auto entry = some.find(pattern);
  return entry == some.end() || entry->second;
}

}  // namespace

std::vector<bool> frozen_units(FreezingPattern pattern, std::int64_t layers) {
  std::vector<bool> all;
  for (std::int64_t i = 0; i < layers; ++i) {
    all.push_back(frozen_layer(pattern, i, layers));
    if (has_adapters(pattern)) all.push_back(false);
  }
  return all;
}

void thaw(std::vector<bool>& frozen) {
  std::iter_swap(std::ranges::find(frozen, true), std::ranges::find(frozen, false));
}

std::vector<bool> synced_units(const std::vector<bool>& frozen, NoSync no_sync, bool last) {
  std::vector<bool> all;
  bool withheld = true;  // of every second trained unit
  for (const bool is_frozen : frozen) {
    const bool at_once = no_sync == NoSync::never || (no_sync == NoSync::every_second && !withheld);
    all.push_back(is_frozen || last || at_once);
    if (!is_frozen) withheld = !withheld;
  }
  return all;
}

}  // namespace tidemark::frozen_reshard
