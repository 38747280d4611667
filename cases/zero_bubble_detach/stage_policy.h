// The policy of a pipeline stage, without libtorch: the program and its plan on paper read the same
// one.
#pragma once

namespace tidemark::zero_bubble_detach {

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

}  // namespace tidemark::zero_bubble_detach
