// Places of the blocks of two traces, compared without addresses.
#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "harness/memory/snapshot.h"

namespace tidemark {

/// Place of an allocation: its segment, numbered as it is met, and the offset in it. An expandable
/// segment is all that is ever mapped side by side. Empty: in no segment that the file knows.
using BlockPlace = std::optional<std::pair<std::size_t, std::int64_t>>;

/// The places of all allocations of a device's trace, in order.
std::vector<BlockPlace> places_of(const Snapshot& snapshot, std::size_t device);

struct SamePlaces {
  std::size_t same = 0, compared = 0;  // allocations; those without a place are not compared
};
/// Compares the places of the first `count` allocations. Each segment of one side is one segment of
/// the other for the whole trace, paired so that the pairs with most blocks at the same offset come
/// first.
SamePlaces same_places(const std::vector<BlockPlace>& a, const std::vector<BlockPlace>& b,
                       std::size_t count);

}  // namespace tidemark
