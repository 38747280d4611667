// A language model divided into pipeline stages: an embedding, L blocks (transformer or MLP, some
// of them checkpointed), a norm and a head over the vocabulary; loss = mean cross entropy over the
// tokens of a microbatch.
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <string>
#include <vector>

#include "harness/parallel/pipeline_stage.h"
#include "harness/parallel/transformer_block.h"

namespace tidemark {

/// Of one stage; stage i of n has layers [i L / n, (i + 1) L / n).
struct StageParts {
  std::int64_t first_layer, end_layer;
  bool first, last;
  std::vector<NamedShape> parameters;  // in the model's order
  std::vector<int> tasks;              // by parameter: its block
};

struct LanguageModel {
  TransformerShape block;
  bool transformer = true;  // else MLP blocks
  std::int64_t layers = 1, vocabulary = 1;
  std::int64_t tokens = 1;  // of a microbatch
  int checkpointing = 0;    // 0: no block; 1: every second; 2: every one
  at::ScalarType type = at::kFloat;

  bool checkpointed(std::int64_t layer) const {
    return checkpointing == 2 || (checkpointing == 1 && layer % 2 == 1);
  }
  std::int64_t checkpointed_blocks(const StageParts& parts) const;
  std::vector<NamedShape> block_parameters() const;
  /// Runs of the engine that a block's weight pass takes.
  std::int64_t runs_a_block(const StagePolicy& policy) const;
  StageParts parts(int stage, int stages) const;

  /// A stage over its parameters. `target`: the tokens to predict, by microbatch; last stage only.
  PipelineStage::Model stage(const StageParts& own, std::vector<at::Tensor> parameters,
                             std::function<at::Tensor(int)> target) const;
};

}  // namespace tidemark
