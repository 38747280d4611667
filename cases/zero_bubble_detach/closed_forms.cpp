// The closed forms: what a rank holds after an action of its schedule, summed over its stages and
// the microbatches on them, in the units of reference/language_model_plan.h. In requested bytes,
// since nothing else follows from the program alone: blocks are rounded, and large ones keep
// unsplit remainders.
#include "cases/zero_bubble_detach/closed_forms.h"

#include <algorithm>
#include <map>

#include "cases/device_facts.h"
#include "cases/zero_bubble_detach/program.h"
#include "cases/zero_bubble_detach/variants.h"
#include "reference/language_model_plan.h"

namespace tidemark::zero_bubble_detach {
namespace {

using reference::HeldStage;
using reference::Terms;

Terms units(const Sizes& z) {
  return reference::unit_bytes({.transformer = z.transformer,
                                .bf16 = z.type != at::kFloat,
                                .tokens = z.tokens,
                                .hidden = z.block.hidden,
                                .ffn = z.block.ffn,
                                .heads = z.block.heads,
                                .kv_heads = z.block.kv_heads,
                                .sequence = z.block.sequence,
                                .vocabulary = z.vocabulary});
}

HeldStage holding(const Sizes& z, const StagePolicy& policy, const PipelineSchedule& schedule,
                  int stage) {
  const auto parts = z.parts(stage, schedule.stages);
  const auto here = [&](int other) {
    return other >= 0 && other < schedule.stages &&
           schedule.rank_of(other) == schedule.rank_of(stage);
  };
  const auto again = static_cast<double>(z.checkpointed_blocks(parts));
  return {.transformer = z.transformer,
          .first = parts.first,
          .last = parts.last,
          .input_stays = here(stage - 1),
          .output_stays = here(stage + 1),
          .blocks = static_cast<double>(parts.end_layer - parts.first_layer),
          .again = again,
          .again_inner = again - (z.checkpointed(parts.first_layer) ? 1 : 0),
          .runs_a_block = static_cast<double>(z.runs_a_block(policy)),
          .splits = splits_backward(schedule.kind),
          .detach_outputs = policy.detach_outputs,
          .detach_loss = policy.detach_loss,
          .detach_last = policy.detach_last,
          .clean_hooks = policy.clean_hooks,
          .release = policy.release,
          .roots_as_edges = policy.roots_as_edges};
}

double parameter_bytes(const Sizes& z, const StageParts& parts) {
  Bytes elements = 0;
  for (const auto& p : parts.parameters) elements += c10::multiply_integers(p.shape);
  return static_cast<double>(elements * (z.type == at::kFloat ? 4 : 2));
}

void add(Terms& to, const Terms& from, double count) {
  for (const auto& [unit, n] : from) to[unit] += count * n;
}

struct State {
  int forwarded = 0, split = 0, done = 0;
};

std::string number(double value) { return std::to_string(static_cast<std::int64_t>(value)); }

}  // namespace

std::vector<Expectation> closed_forms(const Trial& trial, const StagePolicy& policy, int rank,
                                      Bytes workspace) {
  const Sizes z(trial);
  const auto schedule = schedule_of(trial);
  const Terms sizes = units(z);
  std::map<int, HeldStage> holdings;
  std::map<int, double> weights;  // bytes of the parameters, by stage
  std::map<int, State> states;
  double parameters = 0, buffers = 0, inputs = 0;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    if (schedule.rank_of(stage) != rank) continue;
    const auto& held = holdings[stage] = holding(z, policy, schedule, stage);
    parameters += weights[stage] = parameter_bytes(z, z.parts(stage, schedule.stages));
    if (!held.first && !held.input_stays) buffers += z.microbatches;
    if (!held.last && !held.output_stays) buffers += z.microbatches;
    for (const bool reads : {held.first, held.last})
      if (reads) inputs += static_cast<double>(z.microbatches * z.tokens * 8);
  }

  std::vector<Expectation> all;
  std::map<std::pair<int, int>, double> handed_on;  // to a stage of this rank, not yet taken
  double threads = trial.steps > 1 ? 2 : 0;         // that have multiplied, so have a workspace
  for (const Action& action : schedule.order[static_cast<std::size_t>(rank)]) {
    const auto& held = holdings.at(action.stage);
    State& state = states[action.stage];
    const bool backward = action.pass == Pass::backward || action.pass == Pass::input;
    if (action.pass == Pass::forward) ++state.forwarded, threads = std::max(threads, 1.0);
    if (backward) --state.forwarded, ++(action.pass == Pass::input ? state.split : state.done);
    if (action.pass == Pass::weight) --state.split, ++state.done;
    if (action.pass != Pass::forward && (action.pass != Pass::input || !held.first)) threads = 2;
    // Gradients, and with gradient edges activations, wait for a stage of the same rank.
    if (backward && held.input_stays) handed_on[{action.stage - 1, action.microbatch}] = 1;
    if (backward && held.output_stays) handed_on[{action.stage, action.microbatch}] = 0;
    const auto next = std::pair(-action.stage - 2, action.microbatch);
    const auto mine = std::pair(-action.stage - 1, action.microbatch);
    if (policy.roots_as_edges && action.pass == Pass::forward) {
      if (held.output_stays) handed_on[next] = 1;
      handed_on[mine] = 0;
    }
    if (!marked(action, z.microbatches)) continue;

    Terms terms;
    double gradients = 0;
    for (const auto& [stage, h] : holdings) {
      const State& s = states[stage];
      add(terms, h.forwarded(), s.forwarded);
      add(terms, h.split(), s.split);
      add(terms, h.done(), s.done);
      if (s.done > 0) gradients += weights.at(stage);
    }
    for (const auto& [where, count] : handed_on) terms["x"] += count;
    terms["x"] += buffers;
    Expectation one{.statistic = Statistic::requested, .phase = "", .formula = {}};
    one.moment = moment_of(action);
    auto& [text, values] = one.formula;
    text = "parameters + gradients + inputs + workspaces";
    values = {{"parameters", parameters},
              {"gradients", gradients},
              {"inputs", inputs},
              {"workspaces", threads * static_cast<double>(workspace)}};
    for (const auto& [unit, count] : terms) {
      if (count == 0) continue;
      text += " + " + number(count) + "*" + unit;
      values[unit] = sizes.at(unit);
    }
    all.push_back(std::move(one));
  }
  return all;
}

std::vector<Expectation> expect(const Trial& trial, const Variant& variant, int rank) {
  const auto name = variant.role == Role::control ? "drop_grads_hooks" : variant.name;
  return closed_forms(trial, variants()[name], rank, current_device_facts().workspace_bytes);
}

}  // namespace tidemark::zero_bubble_detach
