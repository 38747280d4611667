#include "harness/parallel/language_model.h"

#include <ATen/ATen.h>

#include "harness/parallel/checkpoint.h"

namespace tidemark {

std::vector<NamedShape> LanguageModel::block_parameters() const {
  return transformer ? transformer_parameters(block) : mlp_parameters(block.hidden, block.ffn);
}

std::int64_t LanguageModel::checkpointed_blocks(const StageParts& parts) const {
  std::int64_t count = 0;
  for (auto layer = parts.first_layer; layer < parts.end_layer; ++layer)
    count += checkpointed(layer);
  return count;
}

std::int64_t LanguageModel::runs_a_block(const StagePolicy& policy) const {
  return policy.one_weight_task ? 1 : std::ssize(block_parameters());
}

StageParts LanguageModel::parts(int stage, int stages) const {
  StageParts result{.first_layer = stage * layers / stages,
                    .end_layer = (stage + 1) * layers / stages,
                    .first = stage == 0,
                    .last = stage + 1 == stages,
                    .parameters = {},
                    .tasks = {}};
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape,
                       std::int64_t task) {
    result.parameters.push_back({name, std::move(shape)});
    result.tasks.push_back(static_cast<int>(task));
  };
  if (result.first) add("embedding", {vocabulary, block.hidden}, -1);
  for (auto layer = result.first_layer; layer < result.end_layer; ++layer) {
    for (const auto& p : block_parameters()) {
      // "fc" and "norm" in a name choose the range of its first values.
      const std::string kind = p.shape.size() == 2 && p.name[0] == 'w' ? "fc." : "";
      add("layers." + std::to_string(layer) + "." + kind + p.name, p.shape, layer);
    }
  }
  if (result.last) {
    add("norm", {block.hidden}, layers);
    add("fc.head", {vocabulary, block.hidden}, layers);
  }
  return result;
}

PipelineStage::Model LanguageModel::stage(const StageParts& own, std::vector<at::Tensor> parameters,
                                          std::function<at::Tensor(int)> target) const {
  PipelineStage::Model model;
  model.first = own.first;
  model.tasks = own.tasks;
  model.parameters = parameters;
  model.forward = [own, parameters, model = *this](const at::Tensor& input) {
    auto next = parameters.begin();
    at::Tensor x = input;
    if (own.first) x = at::embedding(*next++, x);
    const auto count = static_cast<std::ptrdiff_t>(model.block_parameters().size());
    for (auto layer = own.first_layer; layer < own.end_layer; ++layer, next += count) {
      const std::vector<at::Tensor> weights(next, next + count);
      const auto run = [weights, model](const at::Tensor& t) {
        return model.transformer ? transformer_block(t, weights, model.block)
                                 : mlp_block(t, weights);
      };
      x = model.checkpointed(layer) ? checkpoint(run, x) : run(x);
    }
    if (!own.last) return x;
    const at::Tensor norm = *next++;
    return at::linear(at::rms_norm(x, {model.block.hidden}, norm, model.block.epsilon), *next);
  };
  if (own.last)
    model.loss = [target = std::move(target)](const at::Tensor& logits, int microbatch) {
      return at::cross_entropy_loss(logits.to(at::kFloat), target(microbatch));
    };
  return model;
}

}  // namespace tidemark
