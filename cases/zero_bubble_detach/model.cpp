#include "cases/zero_bubble_detach/model.h"

namespace tidemark::zero_bubble_detach {

Sizes::Sizes(const Trial& trial)
    : LanguageModel{.block = {.hidden = trial["hidden"],
                              .ffn = trial["ffn"],
                              .heads = trial["heads"],
                              .kv_heads = trial["kv_heads"],
                              .sequence = trial["sequence"]},
                    .transformer = trial["block"] == 0,
                    .layers = trial["layers"],
                    .vocabulary = trial["vocabulary"],
                    .tokens = trial["microbatch"] * trial["sequence"],
                    .checkpointing = static_cast<int>(trial["checkpointing"]),
                    .type = trial["precision"] == 0 ? at::kFloat : at::kBFloat16},
      microbatches(static_cast<int>(trial["microbatches"])) {}

reference::MicrobatchShape microbatch_shape(const Sizes& z) {
  return {.transformer = z.transformer,
          .bf16 = z.type != at::kFloat,
          .tokens = z.tokens,
          .hidden = z.block.hidden,
          .ffn = z.block.ffn,
          .heads = z.block.heads,
          .kv_heads = z.block.kv_heads,
          .sequence = z.block.sequence,
          .vocabulary = z.vocabulary};
}

reference::LookupPlan lookup_plan(const Sizes& z, const reference::DeviceFacts& device) {
  return {{z.tokens, z.vocabulary, z.block.hidden, z.type != at::kFloat}, device};
}

PipelineSchedule schedule_of(const Trial& trial) {
  return make_schedule(static_cast<ScheduleKind>(trial["schedule"]), trial.ranks,
                       static_cast<int>(trial["virtual_stages"]),
                       static_cast<int>(trial["microbatches"]));
}

}  // namespace tidemark::zero_bubble_detach
