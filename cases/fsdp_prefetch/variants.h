// Variants of the scenario. They differ in the layout and the references of their collectives,
// nothing else.
#pragma once

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

  /// Whether gathered buffers are recorded on the communication stream.
  bool records() const {
    return gather == GatherLayout::asynchronous &&
           gather_reference.value_or(reference) == Reference::record_stream;
  }
};

const VariantTable<Layout>& variants();
ShardingOptions options_of(const Layout& layout, const Trial& trial);

}  // namespace tidemark::fsdp_prefetch
