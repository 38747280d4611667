// The model of the scenario and its division into stages: an embedding, L blocks, a norm and a head
// over the vocabulary; loss = mean cross entropy over the tokens of a microbatch.
#pragma once

#include <ATen/core/Tensor.h>

#include <string>
#include <vector>

#include "harness/parallel/pipeline_schedule.h"
#include "harness/parallel/pipeline_stage.h"
#include "harness/parallel/transformer_block.h"
#include "harness/scenario.h"

namespace tidemark::zero_bubble_detach {

struct Sizes {
  explicit Sizes(const Trial& trial);
  TransformerShape block;
  bool transformer;
  std::int64_t layers, vocabulary, tokens;  // tokens of a microbatch
  int microbatches, checkpointing;
  at::ScalarType type;

  bool checkpointed(std::int64_t layer) const {
    return checkpointing == 2 || (checkpointing == 1 && layer % 2 == 1);
  }
  std::vector<NamedShape> block_parameters() const;
};

/// The trial's schedule; throws std::invalid_argument as make_schedule() does.
PipelineSchedule schedule_of(const Trial& trial);

/// A stage's parameters, in the model's order; stage i of n has layers [i L / n, (i + 1) L / n).
struct StageParts {
  std::int64_t first_layer, end_layer;
  bool first, last;
  std::vector<NamedShape> parameters;
  std::vector<int> tasks;  // by parameter: its block
};
StageParts parts_of(const Sizes& sizes, int stage, int stages);

/// The stage over its parameters. `target`: the tokens to predict, by microbatch; last stage only.
PipelineStage::Model stage_model(const Sizes& sizes, const StageParts& parts,
                                 std::vector<at::Tensor> parameters,
                                 std::function<at::Tensor(int)> target);

}  // namespace tidemark::zero_bubble_detach
