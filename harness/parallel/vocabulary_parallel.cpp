#include "harness/parallel/vocabulary_parallel.h"

#include <ATen/ATen.h>
#include <fmt/format.h>
#include <torch/csrc/autograd/custom_function.h>

#include <stdexcept>

#include "harness/parallel/tensor_parallel_functions.h"

namespace tidemark {
namespace {

struct Places {
  at::Tensor elsewhere;  // [n] bool: another rank's word
  at::Tensor local;      // [n] int64: its row here; 0 where it is elsewhere
};

Places places(const at::Tensor& words, VocabularyShard shard) {
  Places p;
  p.elsewhere = words.lt(shard.begin).logical_or_(words.ge(shard.begin + shard.rows));
  p.local = words.sub(shard.begin).masked_fill_(p.elsewhere, 0);
  return p;
}

void all_reduce(TensorParallel& group, const at::Tensor& tensor, Reduction reduction) {
  if (group.ranks() > 1) group.communicator().all_reduce(tensor, reduction, {});
}

struct CrossEntropy : torch::autograd::Function<CrossEntropy> {
  static at::Tensor forward(torch::autograd::AutogradContext* ctx, const at::Tensor& logits,
                            const at::Tensor& targets, VocabularyShard shard,
                            TensorParallel* group) {
    at::Tensor softmax = logits.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
    const at::Tensor largest = softmax.amax(1);
    all_reduce(*group, largest, Reduction::maximum);
    softmax.sub_(largest.unsqueeze(1));
    const auto [elsewhere, local] = places(targets, shard);
    const at::Tensor target =
        softmax.gather(1, local.unsqueeze(1)).squeeze(1).masked_fill_(elsewhere, 0);
    all_reduce(*group, target, Reduction::sum);
    softmax.exp_();
    const at::Tensor total = softmax.sum(1);
    all_reduce(*group, total, Reduction::sum);
    softmax.div_(total.unsqueeze(1));
    ctx->save_for_backward({softmax, elsewhere, local});
    ctx->saved_data["type"] = static_cast<std::int64_t>(logits.scalar_type());
    return total.log().sub_(target);
  }
  // d loss / d logits = softmax - [is the target].
  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* ctx,
                                                 torch::autograd::variable_list gradients) {
    const auto saved = ctx->get_saved_variables();
    const at::Tensor softmax = saved[0];
    const at::Tensor is_target = saved[1].logical_not().to(at::kFloat);
    softmax.scatter_add_(1, saved[2].unsqueeze(1), is_target.neg_().unsqueeze(1));
    softmax.mul_(gradients[0].unsqueeze(1));
    const auto type = static_cast<at::ScalarType>(ctx->saved_data["type"].toInt());
    return {softmax.to(type), at::Tensor(), at::Tensor(), at::Tensor()};
  }
};

}  // namespace

VocabularyShard vocabulary_shard(std::int64_t vocabulary, int rank, int ranks) {
  if (vocabulary < ranks)
    throw std::invalid_argument(
        fmt::format("a vocabulary of {} cannot be sharded over {} ranks", vocabulary, ranks));
  const std::int64_t begin = vocabulary * rank / ranks;
  return {begin, vocabulary * (rank + 1) / ranks - begin};
}

at::Tensor vocabulary_parallel_embedding(const at::Tensor& tokens, const at::Tensor& weight,
                                         VocabularyShard shard, TensorParallel& group) {
  if (group.ranks() == 1) return at::embedding(weight, tokens);
  const auto [elsewhere, local] = places(tokens, shard);
  const at::Tensor partial = at::embedding(weight, local).masked_fill(elsewhere.unsqueeze(1), 0);
  return reduce_scatter_function(partial, group);
}

at::Tensor vocabulary_parallel_cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                             VocabularyShard shard, TensorParallel& group) {
  return CrossEntropy::apply(logits, targets, shard, &group);
}

}  // namespace tidemark
