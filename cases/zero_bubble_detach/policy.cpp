#include "cases/zero_bubble_detach/policy.h"

namespace tidemark::zero_bubble_detach {
namespace {

PipelineHabits habits_of(const Trial& trial) {
  if (trial["habits"] == 0) return {};
  PipelineHabits all{.input_gradients_stay = true,
                     .weight_gradients_linger = true,
                     .outputs_merged = true,
                     .hand_over = HandOver::sent};
  if (trial["habits"] < 3) {
    all.whole_input_gradients_stay = true;
    all.last_input_gradient_stays = trial["habits"] == 1;
  } else {
    all.sent_gradient_stays = trial["schedule"] == static_cast<int>(ScheduleKind::one_f_one_b);
    all.outputs_go = all.captured_gradients_copied = true;
    all.hand_over = HandOver::stays;
  }
  return all;
}

}  // namespace

Sizes::Sizes(const Trial& trial)
    : transformer(trial["block"] == 0),
      bf16(trial["precision"] != 0),
      norms_in_floats(trial["norm"] != 0),
      habits(habits_of(trial)),
      losses_kept(trial["losses"] != 0),
      layers(trial["layers"]),
      hidden(trial["hidden"]),
      ffn(trial["ffn"]),
      heads(trial["heads"]),
      kv_heads(trial["kv_heads"]),
      sequence(trial["sequence"]),
      vocabulary(trial["vocabulary"]),
      tokens(trial["microbatch"] * sequence),
      microbatches(static_cast<int>(trial["microbatches"])),
      checkpointing(static_cast<int>(trial["checkpointing"])) {}

PipelineSchedule schedule_of(const Trial& trial) {
  return make_schedule(static_cast<ScheduleKind>(trial["schedule"]), trial.ranks,
                       static_cast<int>(trial["virtual_stages"]),
                       static_cast<int>(trial["microbatches"]));
}

StagePlace place_of(const Sizes& sizes, const PipelineSchedule& schedule, int stage) {
  const bool first = stage == 0, last = stage + 1 == schedule.stages;
  const auto near = [&](int other) { return schedule.rank_of(other) == schedule.rank_of(stage); };
  return {.number = stage,
          .first = first,
          .last = last,
          .input_stays = !first && near(stage - 1),
          .output_stays = !last && near(stage + 1),
          .first_layer = stage * sizes.layers / schedule.stages,
          .end_layer = (stage + 1) * sizes.layers / schedule.stages};
}

std::vector<StagePlace> stages_of(const Sizes& sizes, const PipelineSchedule& schedule, int rank) {
  std::vector<StagePlace> all;
  for (int stage = 0; stage < schedule.stages; ++stage)
    if (schedule.rank_of(stage) == rank) all.push_back(place_of(sizes, schedule, stage));
  return all;
}

bool marked(const Action& action, int microbatches) {
  const int m = action.microbatch;
  return m == 0 || m == microbatches / 2 || m == microbatches - 1;
}

Call call_of(const Action& action) {
  constexpr const char* kLetters[] = {"F", "B", "I", "W"};  // by Pass
  return {kLetters[static_cast<int>(action.pass)], "stage " + std::to_string(action.stage) +
                                                       ", microbatch " +
                                                       std::to_string(action.microbatch)};
}

std::string moment_of(const Action& action) {
  const auto [op, unit] = call_of(action);
  return "after " + op + ", " + unit;
}

}  // namespace tidemark::zero_bubble_detach
