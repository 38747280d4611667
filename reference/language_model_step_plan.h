// The memory of a training step of one rank of a pipeline, over the model of language_model.h: what
// its stages take and drop in every pass of the schedule, from the algorithm and from what
// PyTorch's operators and its autograd engine do; replayed in the model of the caching allocator.
// Nothing here is measured.
#pragma once

#include <cstdint>
#include <vector>

#include "reference/language_model_plan.h"
#include "reference/memory/replay.h"

namespace tidemark::reference {

/// A stage of the rank.
struct StepStage {
  int number = 0;
  bool first = false, last = false;                // of the pipeline
  bool input_stays = false, output_stays = false;  // the neighbour is on the same rank
  std::int64_t first_layer = 0, end_layer = 1;
};

/// `backward` is input and weight pass in one.
struct StepAction {
  enum class Pass { forward, backward, input, weight } pass = Pass::forward;
  int stage = 0, microbatch = 0;
};

/// What is dropped: see HeldStage.
struct DropPolicy {
  bool detach_outputs = false, detach_loss = false, detach_last = false;
  bool clean_hooks = false, release = false, roots_as_edges = false;
  bool one_weight_task = false;  // a block's weight gradients share a run of the engine
  bool never_collects = false, outputs_stay = false;  // cycles for ever; until the next step begins
  bool backward_cycle = false;  // a whole backward leaves a cycle of its root and gradient
};

struct PipelineStep {
  MicrobatchShape shape;
  int microbatches = 1;
  int checkpointing = 0;          // 0: no block; 1: every second of the model; 2: every one
  std::vector<StepStage> stages;  // in order
  std::vector<StepAction> actions;
};

struct PipelinePrediction {
  Predicted predicted;              // phases zero_grad, pipeline and optimizer
  std::vector<std::int64_t> after;  // every action of the last step: requested bytes
};
PipelinePrediction predict(const PipelineStep& step, const DropPolicy& policy, int steps,
                           const DeviceFacts& device);

}  // namespace tidemark::reference
