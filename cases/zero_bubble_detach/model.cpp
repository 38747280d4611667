#include "cases/zero_bubble_detach/model.h"

#include <ATen/ATen.h>

#include "harness/parallel/checkpoint.h"

namespace tidemark::zero_bubble_detach {

Sizes::Sizes(const Trial& trial)
    : block{.hidden = trial["hidden"],
            .ffn = trial["ffn"],
            .heads = trial["heads"],
            .kv_heads = trial["kv_heads"],
            .sequence = trial["sequence"]},
      transformer(trial["block"] == 0),
      layers(trial["layers"]),
      vocabulary(trial["vocabulary"]),
      tokens(trial["microbatch"] * trial["sequence"]),
      microbatches(static_cast<int>(trial["microbatches"])),
      checkpointing(static_cast<int>(trial["checkpointing"])),
      type(trial["precision"] == 0 ? at::kFloat : at::kBFloat16) {}

std::vector<NamedShape> Sizes::block_parameters() const {
  return transformer ? transformer_parameters(block) : mlp_parameters(block.hidden, block.ffn);
}

PipelineSchedule schedule_of(const Trial& trial) {
  return make_schedule(static_cast<ScheduleKind>(trial["schedule"]), trial.ranks,
                       static_cast<int>(trial["virtual_stages"]),
                       static_cast<int>(trial["microbatches"]));
}

StageParts parts_of(const Sizes& sizes, int stage, int stages) {
  StageParts parts{.first_layer = stage * sizes.layers / stages,
                   .end_layer = (stage + 1) * sizes.layers / stages,
                   .first = stage == 0,
                   .last = stage + 1 == stages,
                   .parameters = {},
                   .tasks = {}};
  const auto add = [&](const std::string& name, std::vector<std::int64_t> shape,
                       std::int64_t task) {
    parts.parameters.push_back({name, std::move(shape)});
    parts.tasks.push_back(static_cast<int>(task));
  };
  const auto hidden = sizes.block.hidden;
  if (parts.first) add("embedding", {sizes.vocabulary, hidden}, -1);
  for (auto layer = parts.first_layer; layer < parts.end_layer; ++layer) {
    for (const auto& p : sizes.block_parameters()) {
      // "fc" and "norm" in a name choose the range of its first values (reference/deterministic.h).
      const std::string kind = p.shape.size() == 2 && p.name[0] == 'w' ? "fc." : "";
      add("layers." + std::to_string(layer) + "." + kind + p.name, p.shape, layer);
    }
  }
  if (parts.last) {
    add("norm", {hidden}, sizes.layers);
    add("fc.head", {sizes.vocabulary, hidden}, sizes.layers);
  }
  return parts;
}

PipelineStage::Model stage_model(const Sizes& sizes, const StageParts& parts,
                                 std::vector<at::Tensor> parameters,
                                 std::function<at::Tensor(int)> target) {
  PipelineStage::Model model;
  model.first = parts.first;
  model.tasks = parts.tasks;
  model.parameters = parameters;
  model.forward = [=](const at::Tensor& input) {
    auto next = parameters.begin();
    at::Tensor x = input;
    if (parts.first) x = at::embedding(*next++, x);
    const auto count = static_cast<std::ptrdiff_t>(sizes.block_parameters().size());
    for (auto layer = parts.first_layer; layer < parts.end_layer; ++layer, next += count) {
      const std::vector<at::Tensor> own(next, next + count);
      const auto block = [own, sizes](const at::Tensor& t) {
        return sizes.transformer ? transformer_block(t, own, sizes.block) : mlp_block(t, own);
      };
      x = sizes.checkpointed(layer) ? checkpoint(block, x) : block(x);
    }
    if (!parts.last) return x;
    const at::Tensor norm = *next++;
    return at::linear(at::rms_norm(x, {sizes.block.hidden}, norm, sizes.block.epsilon), *next);
  };
  if (parts.last)
    model.loss = [target = std::move(target)](const at::Tensor& logits, int microbatch) {
      return at::cross_entropy_loss(logits.to(at::kFloat), target(microbatch));
    };
  return model;
}

}  // namespace tidemark::zero_bubble_detach
