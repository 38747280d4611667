// The spans of a step from the virtual device's trace, reduced to a number that a report can hold.
// Collectives and waits are always kept.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "harness/record/record.h"

struct tidemark_span;  // harness/virtual/device/control.h

namespace tidemark {

using Operation = std::pair<std::uint32_t, std::uint64_t>;  // stream, place in it
using SpanPlaces = std::map<Operation, std::int64_t>;       // where its span is

/// At most `most` of `all`, in their order: the shortest operators and copies are left out first,
/// of equals the later ones; never a collective, a wait or what is `racing`. `places` gets where
/// those of `racing` are. `lane` names a stream.
Spans spans_of(const std::vector<tidemark_span>& all, std::size_t most,
               const std::set<Operation>& racing, SpanPlaces& places,
               const std::function<std::string(std::uint32_t)>& lane);

}  // namespace tidemark
