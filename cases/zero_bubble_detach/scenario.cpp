// A pipeline stage that splits its backward keeps its graph after the input pass, because the
// weight pass starts in the middle of it. What the other nodes saved is never read again,
// and still lives as long as a root is held (outputs and losses, which are returned when the
// step ends) or, through the hooks that took down the gradients, an intermediate. Seen in PyTorch's
// zero bubble schedules up to 2.5.1.
#include "harness/scenario.h"

#include <algorithm>

#include "cases/device_facts.h"
#include "cases/zero_bubble_detach/policy.h"
#include "harness/judge/counts.h"

namespace tidemark {
namespace zero_bubble_detach {

const VariantTable<StagePolicy>& variants() {
  // The four changes together. Variants that go further start here, and so do the wrong fixes.
  static constexpr StagePolicy kAll{
      .detach_outputs = true, .detach_loss = true, .detach_last = true, .clean_hooks = true};
  static const auto with = [](bool StagePolicy::*flag) {
    StagePolicy policy = kAll;
    policy.*flag = true;
    return policy;
  };
  static const VariantTable<StagePolicy> all{{
      {{"retained", Role::baseline,
        "nothing is freed before the step ends, and then everything is, cycles too: the mildest "
        "reading of PyTorch 2.5.1"},
       {}},
      {{"as_released", Role::baseline,
        "PyTorch 2.5.1 while Python's garbage collector does not run: outputs stay until the next "
        "step begins, and cycles for ever, so memory grows with every step"},
       {.never_collects = true, .outputs_stay = true, .backward_cycle = true}},
      {{"detach_outputs", Role::fixed,
        "outputs are detached after the input pass (not the last stage's); the hooks' cycles still "
        "keep the graph"},
       {.detach_outputs = true}},
      {{"detach_outputs_loss", Role::fixed,
        "the loss is detached too: the log-probabilities are freed at once"},
       {.detach_outputs = true, .detach_loss = true}},
      {{"detach_stage_outputs", Role::fixed,
        "the last stage's outputs, which are merged and returned, are detached too"},
       {.detach_outputs = true, .detach_loss = true, .detach_last = true}},
      {{"detach_last_alone", Role::fixed,
        "the last stage's outputs alone are detached: its loss keeps the graph"},
       {.detach_last = true}},
      {{"hooks_alone", Role::fixed,
        "captured gradients and hooks are dropped right after use, and nothing is detached"},
       {.clean_hooks = true}},
      {{"hooks_detach_outputs_loss", Role::fixed,
        "hooks are dropped, outputs and loss detached: the last stage's outputs keep its graph"},
       {.detach_outputs = true, .detach_loss = true, .clean_hooks = true}},
      {{"hooks_detach_last", Role::fixed,
        "hooks are dropped, the last stage's outputs detached: every other root keeps its graph"},
       {.detach_last = true, .clean_hooks = true}},
      {{"drop_grads_hooks", Role::fixed,
        "everything is detached, captured gradients and hooks are dropped right after use: no "
        "cycle is left, so the weight pass frees the graph"},
       kAll},
      {{"release_after_input", Role::fixed,
        "the input pass also frees what only it has read, so that less waits for the weight "
        "pass"},
       with(&StagePolicy::release)},
      {{"clear_losses", Role::fixed,
        "the loss keeps its graph, and the user drops the losses of a step when it has printed "
        "their mean: nothing is held across the next step"},
       {.detach_outputs = true, .detach_last = true, .clean_hooks = true, .clears_losses = true}},
      {{"one_weight_task", Role::fixed,
        "all groups of a block share one run of the engine: a checkpointed block is run again "
        "once, not once for each group"},
       with(&StagePolicy::one_weight_task)},
      {{"gradient_edge", Role::fixed,
        "the backward begins at a gradient edge, so an output is freed as soon as it is sent"},
       with(&StagePolicy::roots_as_edges)},
      {{"detach_view", Role::control,
        "the output is a view, which cannot be detached in place: it keeps its graph",
        "trajectory/"},
       with(&StagePolicy::returns_view)},
      {{"detach_copy_kept", Role::control,
        "a detached copy is returned, and the original stays in its list", "trajectory/"},
       with(&StagePolicy::keeps_undetached)},
      {{"clear_mean", Role::control,
        "as clear_losses, but the user drops the printed mean alone: the list of losses that the "
        "step returned keeps every graph across the next step",
        "rest/"},
       {.detach_outputs = true,
        .detach_last = true,
        .clean_hooks = true,
        .clears_mean_alone = true}},
      {{"hook_cycle", Role::control,
        "hooks refer to their groups for ever, and the cycles are never collected", "rest/"},
       {.detach_outputs = true, .detach_loss = true, .detach_last = true, .never_collects = true}},
      {{"detach_before_input", Role::control,
        "outputs are detached before the input pass: no gradient reaches the stage before",
        "parity/"},
       with(&StagePolicy::detach_early)},
  }};
  return all;
}

namespace {

/// order/schedule and cost/recomputed_blocks: the actions of the last step are the schedule's, and
/// checkpointed blocks were run again as often as the passes need.
std::vector<Verdict> inspect(const Trial& trial, const Variant& variant, const RankRecord& record) {
  const Sizes z(trial);
  const auto schedule = schedule_of(trial);
  const auto& policy = variants()[variant.name];
  std::vector<Call> expected, actual;
  std::int64_t blocks = 0, measured = 0;
  for (const Action& action : schedule.order[static_cast<std::size_t>(record.rank)]) {
    expected.push_back(call_of(action));
    const auto place = place_of(z, schedule, action.stage);
    std::int64_t again = 0;
    for (auto i = place.first_layer; i < place.end_layer; ++i) again += z.checkpointed(i);
    // The first stage has no input gradient: its weight pass is the whole backward.
    const bool whole =
        action.pass == Pass::backward || (action.pass == Pass::weight && place.first);
    const bool split = !whole && !place.first && !policy.detach_early;
    const auto runs = policy.one_weight_task ? 1 : z.parameters_a_block();
    if (whole || (split && action.pass == Pass::input)) blocks += again;
    if (split && action.pass == Pass::weight) blocks += again * runs;
  }
  for (const auto& call : record.steps.back().calls) {
    if (call.op == "recompute")
      measured += std::stoll(call.unit);
    else
      actual.push_back(call);
  }
  return {in_order("order/schedule", expected, actual,
                   std::string("actions that are not those of ") + name_of(schedule.kind)),
          counted("cost/recomputed_blocks", blocks, measured, "blocks",
                  "once a full or an input pass, once a run of the engine in a weight pass")};
}

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
  if (trial["norm"] != 0 && trial["precision"] == 0)
    return "norms are written out in floats where activations are narrower: set precision=bf16 or "
           "norm=fused";
  if (trial["block"] == 0 && trial["sequence"] == 1 && trial.mode == Mode::math)
    return "sequence=1: a token that attends to itself alone gives queries and keys no gradient "
           "but rounding, so numbers prove nothing; set sequence=2 or more, or --mode shapes";
  return trial["block"] == 0 ? without_attention(trial) : "";
}

// If no backward is split, a wrong fix has nothing to break.
std::string leave_out(const Trial& trial, const Variant& variant) {
  const auto& policy = variants()[variant.name];
  if ((policy.clears_losses || policy.clears_mean_alone) && !Sizes(trial).losses_kept)
    return "needs a user that keeps the losses of a step (losses=kept)";
  if (policy.backward_cycle && Sizes(trial).habits.outputs_go)
    return "PyTorch 2.5.1 does not have these habits";
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
  const Sizes z(trial);
  const auto& policy = variants()[variant.name];
  const bool last_alone = (z.habits.outputs_go && policy.returns_view) || policy.clears_mean_alone;
  for (const StagePlace& place : stages_of(z, schedule_of(trial), rank))
    if (!place.first && (place.last || !last_alone)) return "";
  return "not to be seen on rank " + std::to_string(rank) +
         (policy.clears_mean_alone ? ": it does not hold the last stage, which has the losses"
          : last_alone
              ? ": it does not hold the last stage, and other outputs go with their last pass"
              : ": it holds the first stage alone, whose backward is never split");
}

std::vector<Symbol> symbols() {
  using enum MemoryKind;
  return {
      {"rest",
       "what stays between steps: parameters, tokens, and a receive buffer for each microbatch and "
       "neighbour",
       {parameters, receive_buffers, inputs}},
      {"workspace", "cuBLAS's workspace of one thread", {workspaces}},
      {"x",
       "one activation [tokens, hidden]: a block's input, its output's gradient",
       {activations, backward, gradients}},
      {"a_w", "saved by the nodes of a block that own a parameter, its input apart", {activations}},
      {"a_n", "saved by a block's other nodes: attention, silu, products", {activations}},
      {"g", "gradients taken down at a block's parameters, its output's apart", {backward}},
      {"f", "one activation [tokens, ffn]", {activations, backward, gradients}},
      {"k", "keys, or values, of one block", {activations, backward, gradients}},
      {"s",
       "one number a token in single precision: what a norm saves beside its input",
       {activations}},
      {"y",
       "[tokens, hidden] in single precision, of a norm in floats",
       {activations, backward, gradients}},
      {"sum", "where the weight gradient of such a norm is summed over the tokens", {gradients}},
      {"merged", "logits of all microbatches, in one tensor", {outputs}},
      {"lse", "log-sum-exp of one block's attention", {activations}},
      {"random", "seed of the dropout that flash attention keeps, used or not", {activations}},
      {"offset", "the same dropout's offset", {activations}},
      {"parts",
       "temporaries of flash attention's forward, where it divides the keys",
       {activations}},
      {"delta", "row sums in the backward of attention", {backward, gradients}},
      {"acc",
       "accumulator of the queries' gradient in the backward of attention",
       {backward, gradients}},
      {"logits", "logits of one microbatch, or their gradient", {activations, backward, gradients}},
      {"wide",
       "[tokens, vocabulary] in single precision: logits, log-probabilities, or a gradient",
       {activations, backward, gradients}},
      {"loss", "one loss, its weight, or its gradient", {outputs, backward, gradients}},
      {"losses", "the losses of all microbatches, in one tensor", {outputs}},
      {"idx", "an index for each token", {activations, backward, gradients}},
      {"sort", "temporaries of CUB's radix sort of the tokens", {gradients}},
      {"uniq", "temporaries of CUB's unique keys, and their number", {gradients}},
      {"rows", "sums of rows of the embedding's gradient, and where they are", {gradients}},
      {"W", "gradients of all parameters of one block", {gradients}},
      {"w_n", "gradient of one norm's weight", {gradients}},
      {"w_q", "gradient of a matrix [hidden, hidden]", {gradients}},
      {"w_k", "gradient of the matrix that makes keys, or values", {gradients}},
      {"w_f", "gradient of a matrix [ffn, hidden]", {gradients}},
      {"w_v", "gradient of the embedding, or of the head: [vocabulary, hidden]", {gradients}},
  };
}

}  // namespace
}  // namespace zero_bubble_detach

Scenario zero_bubble_detach_scenario() {
  using namespace zero_bubble_detach;
  Scenario s;
  s.name = "zero_bubble_detach";
  s.title = "split backward in a pipeline retains the graph";
  s.kept = "by outputs, losses and hooks that lead to their graph";
  s.seen = {
      pull_request("pytorch/pytorch", 138119,
                   "outputs and losses that are returned to the user keep the graph of a split "
                   "backward across the next step: they are detached"),
      pull_request("pytorch/pytorch", 138504,
                   "the last stage's outputs, which are merged and returned, are detached too"),
      pull_request("pytorch/pytorch", 138720,
                   "hooks and captured gradients of the split backward are dropped after use"),
      pull_request("pytorch/pytorch", 143589,
                   "outputs and losses are returned detached: those that are views cannot be "
                   "detached in place")};
  s.story =
      "Zero bubble schedules compute a stage's input gradients first and its weight gradients "
      "later, in the pipeline's bubbles, so the first pass keeps the graph. Outputs and losses "
      "that are kept until the step ends, and hooks that refer to their parameter groups, hold "
      "every microbatch's graph: activations that are never read again pile up with the "
      "microbatches, and with checkpointing every run again of a block adds to them.";
  // For trials of the same width. The report does not give rank, stages and microbatches, and the
  // saving depends on them (ablation.md).
  const auto published = [](const char* value, const char* what, std::int64_t checkpointing) {
    return Published{{"pytorch/pytorch#138119",
                      std::string("detaching, for a 7B model in torchtitan ") + what +
                          "; ranks, stages and microbatches are not given",
                      value, "hooks_alone", "drop_grads_hooks"},
                     {{"hidden", 4096}, {"checkpointing", checkpointing}}};
  };
  s.published = {
      published("10 %", "without activation checkpointing", 0),
      published("50 %", "with activation checkpointing (of every second block or of every one)", 1),
      published("50 %", "with activation checkpointing (of every second block or of every one)",
                2)};
  s.parameters = {
      {"layers", "blocks of the model", 1, 1024, true},
      {"hidden", "width of the model", 8, 65536},
      {"ffn", "width inside the feed-forward part of a block", 1, 262144},
      {"heads", "attention heads", 1, 512},
      {"kv_heads", "heads of keys and values, shared by groups of heads", 1, 512},
      {"vocabulary", "number of different tokens", 2, 1048576},
      {"sequence", "tokens of a sequence", 1, 1048576, true},
      {"microbatch", "sequences of a microbatch", 1, 64},
      {"microbatches", "microbatches of a step", 1, 256, true},
      choice("schedule", "schedule of the pipeline",
             {"gpipe", "1f1b", "interleaved_1f1b", "zbh1", "zbh2", "interleaved_zb", "zbv"}),
      {"virtual_stages", "stages of a rank; more than one only where the schedule interleaves", 1,
       32},
      choice("checkpointing", "blocks that are run again in backward",
             {"none", "every_second", "every"}),
      choice("losses",
             "what the user does with the losses that a step returns: dropped at once, or kept "
             "until the next step returns its own",
             {"dropped", "kept"}),
      choice("precision", "of parameters and activations", {"fp32", "bf16"}),
      choice("block", "kind of the model's blocks", {"transformer", "mlp"}),
      choice("norm",
             "RMSNorm: one fused operator, or of a bf16 model written out in single precision",
             {"fused", "floats"}),
      choice("habits",
             "what PyTorch's pipelining code keeps besides. torch_2.6: inputs' gradients until the "
             "step ends, weight gradients while the next ones are computed, the last stage's "
             "outputs merged; a rank sends to itself. torch_2.5: besides, a stage's last input "
             "gradient until its next backward. torch_2.11: as torch_2.6, but other outputs go "
             "with their last pass, inputs' gradients of whole backwards when they are sent (1F1B: "
             "when the next is), captured gradients are copied, and what a rank hands to itself "
             "stays",
             {"none", "torch_2.5", "torch_2.6", "torch_2.11"})};
  const Params smoke{{"layers", 8},    {"hidden", 32},        {"ffn", 48},
                     {"heads", 4},     {"kv_heads", 2},       {"vocabulary", 61},
                     {"sequence", 8},  {"microbatch", 1},     {"microbatches", 4},
                     {"schedule", 5},  {"virtual_stages", 2}, {"checkpointing", 0},
                     {"precision", 0}, {"block", 0},          {"norm", 0},
                     {"habits", 0},    {"losses", 1}};
  // Half as many operators a step, and stages for eight ranks: for losses over a hundred steps.
  Params losses{{"schedule", 3}, {"virtual_stages", 1}, {"block", 1}, {"losses", 0}};
  Params checkpointed = smoke;
  checkpointed["checkpointing"] = 2;
  // Llama-7B, and a 70B model with grouped heads.
  Params seed{{"layers", 32},   {"hidden", 4096},      {"ffn", 11008},     {"heads", 32},
              {"kv_heads", 32}, {"vocabulary", 32000}, {"sequence", 2048}, {"microbatches", 8},
              {"precision", 1}, {"losses", 0}};
  Params scale{{"layers", 80},   {"hidden", 8192},       {"ffn", 28672},     {"heads", 64},
               {"kv_heads", 8},  {"vocabulary", 128256}, {"sequence", 8192}, {"microbatches", 16},
               {"precision", 1}, {"checkpointing", 2},   {"losses", 0}};
  Params seed_checkpointed = seed;
  seed_checkpointed["checkpointing"] = 2;
  for (Params* own : {&losses, &seed, &seed_checkpointed, &scale})
    own->insert(smoke.begin(), smoke.end());
  const auto block_a_stage = [](Params params, int ranks) {
    const auto stages = ranks * params["virtual_stages"];
    params["layers"] = std::max(params["layers"], stages);
    return params;
  };
  const auto small = [=](const char* name, const Params& params, bool beside) {
    const auto on_ranks = [=](int ranks) {
      Params own = params;
      if (ranks > 1) {  // stages enough without a second one on each rank: half the work
        own["schedule"] = 3, own["virtual_stages"] = 1;
        own["layers"] = 4;
      }
      return block_a_stage(own, ranks);
    };
    return Size{.name = name,
                .params = params,
                .modes = {Mode::math, Mode::shapes},
                .on_ranks = on_ranks,
                .smoke = beside};
  };
  s.sizes = {small("smoke", smoke, false),
             small("checkpointed", checkpointed, true),
             {"losses", losses, {Mode::math, Mode::shapes}},
             {"seed", seed, {Mode::shapes}, true},
             {.name = "seed_checkpointed",
              .params = seed_checkpointed,
              .modes = {Mode::shapes},
              .slow = true,
              .nightly = true},
             {"scale", scale, {Mode::shapes}, true, [=](int ranks) {
                Params params = block_a_stage(scale, ranks);
                params["microbatches"] = std::max(16, ranks);
                return params;
              }}};
  variants().put_into(s, program);
  s.drawn_fix = "release_after_input";
  s.unfit = unfit;
  s.leave_out = leave_out;
  s.unseen = unseen;
  s.forms = forms;
  s.formed = kFormed;
  s.statistic = Statistic::requested;
  s.symbols = symbols();
  s.replay = replay;
  s.inspect = inspect;
  s.leak = leak;
  s.held = held;
  s.reference = oracle;
  return s;
}

}  // namespace tidemark
