// Policies of the building blocks, without libtorch: a program and its plan on paper read the same
// one.
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
};

struct ShardingOptions {
  GatherLayout layout = GatherLayout::asynchronous;
  Reference reference = Reference::stash;  // of the communicator
  /// The reference policy of the all-gathers, if it differs from that of the communicator.
  std::optional<Reference> gather_reference = {};
  /// Whether a unit keeps its flat buffer until it is copied out. Without, the work's reference is
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

  /// Whether gathered buffers are recorded on the communication stream.
  bool records() const {
    return layout == GatherLayout::asynchronous &&
           gather_reference.value_or(reference) == Reference::record_stream;
  }
  /// Whether hooks on its inputs tell when a frozen unit's backward is over.
  bool hooks_frozen() const {
    return frozen == FrozenReshard::input_hooks || frozen == FrozenReshard::will_execute;
  }
};

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

/// The way from a stage to its neighbour on the same rank.
enum class HandOver {
  moved,  // the neighbour takes the tensor, and it goes with its use
  sent,   // as to another rank: copied into the receive buffer
  stays,  // it takes the place of the receive buffer, until the next step's does
};

/// Habits of PyTorch's pipelining code: memory that it keeps for longer than a step needs it.
struct PipelineHabits {
  bool input_gradients_stay = false;        // of split backwards, until the step ends
  bool whole_input_gradients_stay = false;  // of whole ones likewise
  bool last_input_gradient_stays = false;   // of a stage, until its next backward
  bool sent_gradient_stays = false;         // until the next is to be sent, or the passes end
  bool outputs_go = false;  // a microbatch's output with its last pass; not on the last stage
  bool captured_gradients_copied = false;  // for a run of the weight pass; until the next is copied
  /// The weight gradients of one run of the weight pass stay until the next run has ended.
  bool weight_gradients_linger = false;
  bool outputs_merged = false;  // those of the last stage, when the step ends
  HandOver hand_over = HandOver::moved;
};

/// The tensors that a stage of a pipeline drops, and the moment of it.
struct StagePolicy {
  bool detach_outputs = false;    // after the input pass, in place; not on the last stage
  bool detach_loss = false;       // likewise
  bool detach_last = false;       // likewise the last stage's outputs
  bool clean_hooks = false;       // InputPass::clean_hooks
  bool release = false;           // InputPass::release
  bool one_weight_task = false;   // a block's groups share a run of the engine
  bool roots_as_edges = false;    // outputs are not kept, only where a backward begins
  bool returns_view = false;      // the output is a view, which cannot be detached in place
  bool keeps_undetached = false;  // a detached copy is returned, and the original kept
  bool never_collects = false;    // the hooks' cycles stay over the end of the step
  bool outputs_stay = false;      // until the next step begins
  bool backward_cycle = false;  // a whole backward leaves a cycle that holds its root and gradient
  bool detach_early = false;    // before the input pass, which then reaches nothing
  PipelineHabits habits = {};
};

}  // namespace tidemark
