// The policy of the gathered inputs of column linears, without libtorch: the program and its plan
// on paper read the same one.
#pragma once

namespace tidemark::tp_buffer_reuse {

/// The place and the lifetime of the gathered input of a column linear.
enum class GatherPolicy {
  separate,      // a differentiable all-gather, then a product: autograd saves what was gathered
  cached,        // one Function that gathers into a fresh tensor and saves it
  recomputed,    // one Function that gathers into a persistent buffer, saves the shard and
                 // gathers again in backward
  asynchronous,  // recomputed, on the communicator's stream beside the products; backward's
                 // gathered gradients have a second persistent buffer
  shared,        // asynchronous with one buffer for both: the gathered input overwrites gradients
                 // that a product still reads. A race
  aliased,       // separate, with the outputs of all collectives in one persistent buffer. Wrong
  aliased_by_name,  // separate, with one buffer for all-gathers and one for reduce-scatters. Wrong
};

}  // namespace tidemark::tp_buffer_reuse
