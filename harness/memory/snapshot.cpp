#include "harness/memory/snapshot.h"

#include <fmt/format.h>

#include <algorithm>

#include "harness/record/one_line.h"

namespace tidemark {
namespace {

template <class Enum>
std::optional<Enum> named(std::string_view word) {
  constexpr auto kWords = words(Enum());
  const auto* match = std::ranges::find(kWords, word);
  if (match == kWords.end()) return std::nullopt;
  return static_cast<Enum>(match - kWords.begin());
}

}  // namespace

std::optional<AllocatorAction> action_named(std::string_view word) {
  return named<AllocatorAction>(word);
}
std::optional<HolderKind> holder_kind(std::string_view word) { return named<HolderKind>(word); }
std::optional<BlockUse> block_use(std::string_view word) { return named<BlockUse>(word); }

std::string unknown_kind(std::string_view word) {
  return fmt::format("'{}' is no kind of memory that this version of tidemark knows",
                     one_line(std::string(word)));
}

}  // namespace tidemark
