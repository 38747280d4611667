// The policies of the variants, the sizes of a trial, its schedule and its stages, and what else
// the files of the scenario share, without libtorch.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "cases/zero_bubble_detach/pipeline_schedule.h"
#include "harness/scenario.h"
#include "reference/memory/kernels.h"

namespace tidemark {
class World;
}

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
  bool detach_outputs = false;     // after the input pass, in place; not on the last stage
  bool detach_loss = false;        // likewise
  bool detach_last = false;        // likewise the last stage's outputs
  bool clean_hooks = false;        // InputPass::clean_hooks
  bool release = false;            // InputPass::release
  bool one_weight_task = false;    // a block's groups share a run of the engine
  bool roots_as_edges = false;     // outputs are not kept, only where a backward begins
  bool returns_view = false;       // the output is a view, which cannot be detached in place
  bool keeps_undetached = false;   // a detached copy is returned, and the original kept
  bool never_collects = false;     // the hooks' cycles stay over the end of the step
  bool outputs_stay = false;       // until the next step begins
  bool clears_losses = false;      // the user drops those of a step when it has printed their mean
  bool clears_mean_alone = false;  // the user drops the mean, and takes the losses for dropped
  bool backward_cycle = false;  // a whole backward leaves a cycle that holds its root and gradient
  bool detach_early = false;    // before the input pass, which then reaches nothing
};

const VariantTable<StagePolicy>& variants();
/// The trial's schedule; throws std::invalid_argument as make_schedule() does.
PipelineSchedule schedule_of(const Trial& trial);

/// A language model: an embedding, L blocks (transformer or MLP, some of them checkpointed), a norm
/// and a head over the vocabulary.
struct Sizes {
  explicit Sizes(const Trial& trial);

  bool transformer, bf16;  // else MLP blocks; else single precision
  bool norms_in_floats;    // else one fused operator
  PipelineHabits habits;   // of the release that the trial names
  bool losses_kept;        // by the user, until the next step returns its own
  std::int64_t layers, hidden, ffn, heads, kv_heads, sequence, vocabulary;
  std::int64_t tokens;  // of a microbatch
  int microbatches;
  int checkpointing;  // 0: no block; 1: every second; 2: every one

  std::int64_t element() const { return bf16 ? 2 : 4; }  // bytes
  bool checkpointed(std::int64_t layer) const {
    return checkpointing == 2 || (checkpointing == 1 && layer % 2 == 1);
  }
  int parameters_a_block() const { return transformer ? 9 : 2; }
  /// A norm so narrow for its tokens sums its weight's gradient in two steps, with temporaries
  /// that are not modelled (aten/src/ATen/native/cuda/layer_norm_kernel.cu).
  bool sums_norms_in_parts(std::int64_t processors) const {
    return !norms_in_floats && tokens > 65536 && hidden / 32 < processors / 2;
  }
  // Inputs of the plans on paper.
  reference::AttentionPlan attention(const reference::DeviceFacts& device) const {
    return {{tokens / sequence, sequence, heads, kv_heads, hidden / heads, bf16}, device};
  }
  reference::SumOfRowsPlan norm_weight_sum(const reference::DeviceFacts& device) const {
    return {{tokens, hidden, element()}, device};
  }
  reference::LookupPlan lookup(const reference::DeviceFacts& device) const {
    return {{tokens, vocabulary, hidden, bf16}, device};
  }
};

/// Stage i of n has layers [i L / n, (i + 1) L / n).
struct StagePlace {
  int number = 0;
  bool first = false, last = false;                // of the pipeline
  bool input_stays = false, output_stays = false;  // the neighbour is on the same rank
  std::int64_t first_layer = 0, end_layer = 1;
  std::int64_t blocks() const { return end_layer - first_layer; }
};
StagePlace place_of(const Sizes& sizes, const PipelineSchedule& schedule, int stage);
/// The stages of one rank, in order.
std::vector<StagePlace> stages_of(const Sizes& sizes, const PipelineSchedule& schedule, int rank);

/// True if residency after this action is recorded: of the first, the middle and the last
/// microbatch of every stage.
bool marked(const Action& action, int microbatches);
/// "W" of "stage 2, microbatch 0"
Call call_of(const Action& action);
/// "after W, stage 2, microbatch 0"
std::string moment_of(const Action& action);

std::unique_ptr<Program> program(const Trial& trial, const StagePolicy& policy, const World& world);

/// The peak of the last step's pipeline on the rank of the last stage, where kFormed says.
std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int rank);
inline constexpr const char* kFormed =
    "on the rank of the last stage, unless that has the first, with a schedule that splits the "
    "backward, block=transformer, norm=fused, checkpointing=none, habits=none and "
    "attention that does not divide its keys; not of one_weight_task";
/// The replay of the step's allocations in all four statistics, and its accounts: the peaks of the
/// pipeline and of the optimizer, the end of the pipeline, requested bytes after the marked
/// actions. A control has what it claims: the residency of drop_grads_hooks.
std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int rank);
/// Requested bytes that every step adds to what the rank holds, where cycles are never collected:
/// the account of the replay. "0" where there are none.
Formula leak(const Trial& trial, const Variant& variant, int rank);

/// Bytes of the losses that the user of the variant holds when a step has ended, and of all that
/// their graphs hold: what the replay frees when it drops them. "0" if there are none.
Formula held(const Trial& trial, const Variant& variant, int rank);

Oracle oracle(const Trial& trial);

}  // namespace tidemark::zero_bubble_detach
