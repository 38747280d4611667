// How the variants of the scenario differ: in the layout and the references of their collectives,
// nothing else.
#pragma once

#include <vector>

#include "harness/parallel/sharded_step.h"
#include "harness/scenario.h"

namespace tidemark::fsdp_prefetch {

struct Layout {
  GatherLayout gather = GatherLayout::asynchronous;
  Reference reference = Reference::stash;          // of the communicator
  std::optional<Reference> gather_reference = {};  // of the all-gathers alone
  bool unit_keeps_buffer = true;
  int in_flight_limit = 0;
  bool explicit_prefetch = true;
};

std::vector<Variant> variants();
/// Throws std::out_of_range for a name that variants() does not have.
Layout layout_of(const std::string& variant);
ShardingOptions options_of(const Layout& layout, const Trial& trial);

}  // namespace tidemark::fsdp_prefetch
