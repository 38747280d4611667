#include "reports/snapshot/snapshot.h"

#include <algorithm>

namespace tidemark {

std::optional<AllocatorAction> action_named(std::string_view word) {
  constexpr auto kWords = words(AllocatorAction());
  const auto* match = std::ranges::find(kWords, word);
  if (match == kWords.end()) return std::nullopt;
  return static_cast<AllocatorAction>(match - kWords.begin());
}

}  // namespace tidemark
