// Embedding and cross entropy with the vocabulary sharded over the ranks of a tensor-parallel
// group, as in Megatron-LM: no rank ever holds a row of the whole vocabulary. A rank's logits come
// from a column linear whose output features are its part of the vocabulary.
#pragma once

#include <ATen/core/Tensor.h>

#include "harness/parallel/tensor_parallel.h"

namespace tidemark {

/// Rows [begin, begin + rows) of the vocabulary.
struct VocabularyShard {
  std::int64_t begin = 0, rows = 0;
};

/// A rank's part: contiguous, in rank order, sizes differ by one at most. Throws
/// std::invalid_argument where there are fewer words than ranks.
VocabularyShard vocabulary_shard(std::int64_t vocabulary, int rank, int ranks);

/// tokens [n] int64, the same on all ranks; weight [shard.rows, h] -> [n / ranks, h], sharded along
/// the sequence: every rank looks up the words it has, zeros elsewhere, and a reduce-scatter adds.
at::Tensor vocabulary_parallel_embedding(const at::Tensor& tokens, const at::Tensor& weight,
                                         VocabularyShard shard, TensorParallel& group);

/// logits [n, shard.rows], this rank's; targets [n] int64, the same on all ranks -> losses [n] in
/// fp32, the same on all ranks. Three all-reduces of n elements in forward (largest logit, target's
/// logit, sum of exponentials), none in backward. Keeps the softmax [n, shard.rows] in fp32 and the
/// targets' places; the gradient is computed in that softmax's memory, so backward runs once.
at::Tensor vocabulary_parallel_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                             VocabularyShard shard, TensorParallel& group);

}  // namespace tidemark
