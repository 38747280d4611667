#include "cases/fsdp_prefetch/variants.h"

namespace tidemark::fsdp_prefetch {

const VariantTable<Layout>& variants() {
  using enum GatherLayout;
  static const VariantTable<Layout> all{{
      {{"record_stream", Role::baseline,
        "gathered buffers are recorded on the communication stream, so the allocator keeps them "
        "until it has seen that "
        "stream pass"},
       {.gather = asynchronous, .reference = Reference::record_stream}},
      {{"separate_streams", Role::baseline,
        "implicit prefetch: buffers come from a copy-in stream; nothing over-allocated, but every "
        "stream keeps a pool of "
        "its own"},
       {.gather = separate_streams, .explicit_prefetch = false}},
      {{"stash", Role::fixed,
        "the work handle keeps the buffers until wait() has made the compute stream wait for the "
        "gather"},
       {.gather = asynchronous, .reference = Reference::stash}},
      {{"per_collective", Role::fixed,
        "the communicator records, but the all-gathers ask not to be recorded"},
       {.gather = asynchronous,
        .reference = Reference::record_stream,
        .gather_reference = Reference::stash}},
      {{"current_stream_sync", Role::fixed,
        "buffers from the compute stream, gathered synchronously on a stream of their own; the "
        "copy-out waits for its event"},
       {.gather = current_stream}},
      {{"rate_limiter", Role::fixed,
        "buffers are recorded, but the host waits so that at most two gathers are in flight"},
       {.gather = asynchronous, .reference = Reference::record_stream, .in_flight_limit = 2}},
      {{"two_buffers", Role::fixed,
        "two persistent buffers used in turn; the stream waits, not the host"},
       {.gather = two_buffers}},
      {{"no_reference", Role::control, "the buffer is dropped right after the gather is launched",
        "race/"},
       {.gather = asynchronous, .reference = Reference::none, .unit_keeps_buffer = false}},
      {{"unstash_before_wait", Role::control,
        "the buffer is dropped in wait() before the compute stream waits for the gather", "race/"},
       {.gather = asynchronous,
        .reference = Reference::unstash_before_wait,
        .unit_keeps_buffer = false}},
  }};
  return all;
}

ShardingOptions options_of(const Layout& layout, const Trial& trial) {
  const auto precision = trial["precision"];
  return {.layout = layout.gather,
          .gather_reference = layout.gather_reference,
          .unit_keeps_buffer = layout.unit_keeps_buffer,
          .in_flight_limit = layout.in_flight_limit,
          .reshard_after_forward = trial["reshard_after_forward"] != 0,
          .stored = precision == 1 ? at::kBFloat16 : at::kFloat,
          .gathered = precision == 0 ? at::kFloat : at::kBFloat16,
          .reduced = at::kFloat};
}

}  // namespace tidemark::fsdp_prefetch
