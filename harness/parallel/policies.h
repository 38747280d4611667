// Policies of sharded units and of their communicator, without libtorch: a program and its plan on
// paper read the same one.
#pragma once

#include <cstdint>
#include <optional>

namespace tidemark {

/// The means by which an asynchronous collective's tensors outlive it. A freed block goes back to
/// the pool of the stream it was allocated on, so a later allocation there may overwrite what the
/// communication stream still reads.
enum class Reference {
  record_stream,  // the allocator keeps a freed block until the communication stream has passed
                  // this point
  stash,          // the work keeps the tensors until wait() has made the waiting stream wait
  none,           // no owner: a race
  unstash_before_wait,  // the work drops the tensors in wait(), but before the stream waits: a race
};

/// The owner of the flat buffer of an all-gather, and the stream of the gather.
enum class GatherLayout {
  separate_streams,  // allocated on a copy-in stream, gathered on another; kept until the next
                     // copy-out (implicit prefetch)
  asynchronous,    // allocated on the compute stream, gathered asynchronously on the communicator's
                   // stream
  current_stream,  // allocated on the compute stream, gathered synchronously on the gather stream
  two_buffers,     // asynchronous, into two persistent buffers in turn
  flat,  // no buffer: a unit is one flat parameter, of which its weights are views, and is gathered
         // straight into that, allocated on the gather stream; what the compute stream has used is
         // recorded there when it is freed (FSDP1). All element types are the same
};

/// When backward reshards a unit of which every parameter is frozen. It was gathered because its
/// input's gradient needs it, but no gradient of its own says when that is done.
enum class FrozenReshard {
  input_node,    // by an identity node on its input, as FSDP2 does for every unit
  input_hooks,   // by hooks on its inputs, when the gradients of all of them have been computed
  will_execute,  // likewise, but of those only that this backward computes
  end,           // at the end of backward
  never,         // its next forward does
  before_use,    // as soon as it is gathered, so that its input's gradient fails
  replicated,    // there is nothing to reshard: every rank has all of it, as under DDP
};

struct ShardingOptions {
  GatherLayout layout = GatherLayout::asynchronous;
  Reference reference = Reference::stash;  // of the communicator
  /// The reference policy of the all-gathers, if it differs from that of the communicator.
  std::optional<Reference> gather_reference = {};
  /// True if a unit keeps its flat buffer until it is copied out. Without, the work's reference is
  /// the only one.
  bool unit_keeps_buffer = true;
  /// The host waits until at most this many gathered buffers are in flight; 0: it never waits.
  int in_flight_limit = 0;
  bool reshard_after_forward = true;
  /// Backward gathers the unit before ahead of its turn.
  bool backward_prefetch = true;
  /// Bytes of an element (4: fp32, 2: bf16) of the shards, of the unsharded parameters, and of the
  /// gradients while they are summed over the ranks.
  std::int64_t stored = 4, gathered = 4, reduced = 4;
  FrozenReshard frozen = FrozenReshard::input_node;
  bool remove_hooks = true;  // of inputs, once they have done their work
  /// The end of backward takes frozen units that backward did not reach for resharded.
  bool catch_all_misses = false;
  /// The end of backward asks the step whether gradients were reduced, not each unit.
  bool root_decides_sync = false;
  /// Trainable units that something gathered again after their backward are freed at its end.
  bool free_regathered = true;

  /// True if gathered buffers are recorded on the communication stream.
  bool records() const {
    return layout == GatherLayout::asynchronous &&
           gather_reference.value_or(reference) == Reference::record_stream;
  }
  /// True if units that are frozen from the beginning are not sharded.
  bool replicates_frozen() const { return frozen == FrozenReshard::replicated; }
  /// True if hooks on its inputs tell when a frozen unit's backward is over.
  bool hooks_frozen() const {
    return frozen == FrozenReshard::input_hooks || frozen == FrozenReshard::will_execute;
  }
};

}  // namespace tidemark
