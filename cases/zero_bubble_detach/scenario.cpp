// A pipeline stage that splits its backward keeps its graph after the input pass, because the
// weight pass starts in the middle of it. What the other nodes saved is never read again,
// and still lives as long as a root is held (outputs and losses, which are returned when the
// step ends) or, through the hooks that took down the gradients, an intermediate. Seen in PyTorch's
// zero bubble schedules up to 2.5.1.
#include "harness/scenario.h"

#include <algorithm>

#include "cases/zero_bubble_detach/closed_forms.h"
#include "cases/zero_bubble_detach/inspect.h"
#include "cases/zero_bubble_detach/program.h"
#include "cases/zero_bubble_detach/reference.h"
#include "cases/zero_bubble_detach/replay.h"
#include "cases/zero_bubble_detach/variants.h"
#include "harness/ranks/world.h"

namespace tidemark {
namespace {

using namespace zero_bubble_detach;

std::string unfit(const Trial& trial) {
  const auto kind = static_cast<ScheduleKind>(trial["schedule"]);
  if (auto why = unschedulable(kind, trial.ranks, static_cast<int>(trial["virtual_stages"]),
                               static_cast<int>(trial["microbatches"]));
      !why.empty())
    return why + "; set virtual_stages, microbatches or schedule";
  const auto stages = trial.ranks * trial["virtual_stages"];
  if (trial["layers"] < stages)
    return std::to_string(trial["layers"]) + " layers leave some of " + std::to_string(stages) +
           " stages without one; set layers=" + std::to_string(stages) + " or more";
  const auto heads = trial["heads"], kv = trial["kv_heads"], hidden = trial["hidden"];
  if (trial["block"] == 0 && (hidden % heads != 0 || hidden / heads % 8 != 0 ||
                              hidden / heads > 256 || kv > heads || heads % kv != 0))
    return "attention's kernels take heads of a multiple of 8 up to 256 elements, in equal groups: "
           "not hidden " +
           std::to_string(hidden) + " in " + std::to_string(heads) + " heads, " +
           std::to_string(kv) + " of keys and values";
  return "";
}

// Where no backward is split there is nothing that a wrong fix could break.
std::string leave_out(const Trial& trial, const Variant& variant) {
  if (variant.role != Role::control) return "";
  const auto kind = static_cast<ScheduleKind>(trial["schedule"]);
  if (!splits_backward(kind)) return std::string(name_of(kind)) + " does not split its backward";
  if (trial.ranks * trial["virtual_stages"] == 1)
    return "the only stage needs no input gradient, so nothing is split";
  if (variant.caught_by.starts_with("parity/") && trial.mode == Mode::shapes)
    return "needs numbers (--mode math)";
  return "";
}

// Only a stage whose backward is split has a graph that a wrong fix could keep, and the first stage
// of the pipeline never splits it. Gradients that do not arrive (parity) show on it all the same.
std::string unseen(const Trial& trial, const Variant& variant, int rank) {
  if (variant.role != Role::control || variant.caught_by.starts_with("parity/")) return "";
  const auto schedule = schedule_of(trial);
  for (int stage = 1; stage < schedule.stages; ++stage)
    if (schedule.rank_of(stage) == rank) return "";
  return "not to be seen on rank " + std::to_string(rank) +
         ": it holds the first stage alone, whose backward is never split";
}

}  // namespace

Scenario zero_bubble_detach_scenario() {
  Scenario s;
  s.name = "zero_bubble_detach";
  s.title = "split backward in a pipeline retains the graph";
  s.story =
      "Zero bubble schedules compute a stage's input gradients first and its weight gradients "
      "later, in the pipeline's bubbles, so the first pass keeps the graph. Outputs and losses "
      "that "
      "are kept until the step ends, and hooks that refer to their parameter groups, hold every "
      "microbatch's graph: activations that are never read again pile up with the microbatches, "
      "and "
      "with checkpointing every run again of a block adds to them.";
  s.parameters = {
      {"layers", "blocks of the model", 1, 1024, true},
      {"hidden", "width of the model", 8, 65536},
      {"ffn", "width inside the feed-forward part of a block", 1, 262144},
      {"heads", "attention heads", 1, 512},
      {"kv_heads", "heads of keys and values, shared by groups of heads", 1, 512},
      {"vocabulary", "tokens there are", 2, 1048576},
      {"sequence", "tokens of a sequence", 1, 1048576, true},
      {"microbatch", "sequences of a microbatch", 1, 64},
      {"microbatches", "of a step", 1, 256, true},
      {.name = "schedule",
       .what = "of the pipeline",
       .low = 0,
       .high = 6,
       .values = {"gpipe", "1f1b", "interleaved_1f1b", "zbh1", "zbh2", "interleaved_zb", "zbv"}},
      {"virtual_stages", "stages of a rank; more than one only where the schedule interleaves", 1,
       32},
      {"checkpointing",
       "blocks that are run again in backward",
       0,
       2,
       false,
       {"none", "every_second", "every"}},
      {"precision", "of parameters and activations", 0, 1, false, {"fp32", "bf16"}},
      {"block", "of the model", 0, 1, false, {"transformer", "mlp"}}};
  const Params smoke{{"layers", 8},    {"hidden", 32},        {"ffn", 48},
                     {"heads", 4},     {"kv_heads", 2},       {"vocabulary", 61},
                     {"sequence", 8},  {"microbatch", 1},     {"microbatches", 4},
                     {"schedule", 5},  {"virtual_stages", 2}, {"checkpointing", 0},
                     {"precision", 0}, {"block", 0}};
  // Half as many operators a step, and stages for eight ranks: for losses over a hundred steps.
  Params losses = smoke;
  for (const auto& [name, value] : Params{{"schedule", 3}, {"virtual_stages", 1}, {"block", 1}})
    losses[name] = value;
  // Llama-7B, and a 70B model with grouped heads.
  Params seed = smoke, scale = smoke;
  for (const auto& [name, value] : Params{{"layers", 32},
                                          {"hidden", 4096},
                                          {"ffn", 11008},
                                          {"heads", 32},
                                          {"kv_heads", 32},
                                          {"vocabulary", 32000},
                                          {"sequence", 2048},
                                          {"microbatches", 8},
                                          {"precision", 1}})
    seed[name] = value;
  for (const auto& [name, value] : Params{{"layers", 80},
                                          {"hidden", 8192},
                                          {"ffn", 28672},
                                          {"heads", 64},
                                          {"kv_heads", 8},
                                          {"vocabulary", 128256},
                                          {"sequence", 8192},
                                          {"microbatches", 16},
                                          {"precision", 1},
                                          {"checkpointing", 2}})
    scale[name] = value;
  const auto block_a_stage = [](Params params, int ranks) {
    const auto stages = ranks * params["virtual_stages"];
    params["layers"] = std::max(params["layers"], stages);
    return params;
  };
  s.sizes = {{"smoke",
              smoke,
              {Mode::math, Mode::shapes},
              false,
              [=](int ranks) { return block_a_stage(smoke, ranks); }},
             {"losses", losses, {Mode::math, Mode::shapes}},
             {"seed", seed, {Mode::shapes}, true},
             {"scale", scale, {Mode::shapes}, true, [=](int ranks) {
                Params params = block_a_stage(scale, ranks);
                params["microbatches"] = std::max(16, ranks);
                return params;
              }}};
  s.variants = variants().list();
  s.drawn_fix = "release_after_input";
  s.unfit = unfit;
  s.leave_out = leave_out;
  s.unseen = unseen;
  s.make = [](const Trial& trial, const Variant& variant,
              World& world) -> std::unique_ptr<Program> {
    return std::make_unique<Training>(trial, variants()[variant.name], world);
  };
  s.forms = forms;
  s.statistic = Statistic::requested;
  s.symbols = symbols();
  s.replay = replay;
  s.inspect = inspect;
  s.reference = oracle;
  return s;
}

}  // namespace tidemark
