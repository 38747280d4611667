// The closed forms. A microbatch on a stage is not begun, forwarded (F), split (its input pass is
// done, I), or done (W); what it holds in each state is a sum of
//   x    one activation [tokens, hidden]: a block's input, its output's gradient, a stage's output
//   a_w  saved by a block's parameter-owning nodes, its input apart: released by the weight pass
//   a_n  saved by its other nodes: released by nobody but the end of the graph. Attention's output
//   is
//        among them, for attention reads it again, although the output projection owns it too
//   g    gradients taken down at a block's intermediates, its output's apart
//   logits, logp (log-probabilities, and the loss's weight), head (what the last norm saves beside
//   x), loss
// In requested bytes, since nothing else follows from the program alone: blocks are rounded, and
// large ones keep unsplit remainders.
#include "cases/zero_bubble_detach/closed_forms.h"

#include <algorithm>
#include <map>

#include "cases/device_facts.h"
#include "cases/zero_bubble_detach/program.h"
#include "cases/zero_bubble_detach/variants.h"
#include "reference/attention_plan.h"

namespace tidemark::zero_bubble_detach {
namespace {

using Terms = std::map<std::string, double>;  // by unit: how many

Terms units(const Sizes& z) {
  const auto& s = z.block;
  const auto t = z.tokens, h = s.hidden, f = s.ffn, e = z.type == at::kFloat ? 4l : 2l;
  Terms u;
  const auto set = [&](const char* name, std::int64_t bytes) {
    u[name] = static_cast<double>(bytes);
  };
  set("x", t * h * e);
  if (z.transformer) {
    // Of what attention takes only that counts which it keeps, whatever the device.
    const reference::AttentionPlan attention(
        {t / s.sequence, s.sequence, s.heads, s.kv_heads, h / s.heads, e == 2}, 1);
    const auto read = attention.copies ? attention.queries : attention.keys;
    const auto random = e == 2 ? 24 : 0;  // the dropout's state, which flash keeps on the device
    set("a_w", t * (3 * h + f) * e + 2 * t * 4);
    set("a_n", t * (2 * h + 3 * f) * e + 2 * read + attention.statistics + random);
    set("g", t * (4 * h + 2 * f) * e + 2 * attention.keys);
  } else {
    for (const char* one : {"a_w", "a_n", "g"}) set(one, t * f * e);
  }
  set("logits", t * z.vocabulary * e);
  set("logp", t * z.vocabulary * 4 + 4);
  set("head", t * 4);
  set("loss", 4);
  return u;
}

/// A stage under a policy.
struct Holding {
  const Sizes& z;
  StagePolicy policy;
  StageParts parts;
  bool output_stays, input_stays;     // the neighbour is on the same rank
  double blocks, again, again_inner;  // all; checkpointed; of these, all but the stage's first

  Holding(const Sizes& sizes, StagePolicy p, const PipelineSchedule& schedule, int stage)
      : z(sizes), policy(p), parts(sizes.parts(stage, schedule.stages)) {
    const auto here = [&](int other) {
      return other >= 0 && other < schedule.stages &&
             schedule.rank_of(other) == schedule.rank_of(stage);
    };
    output_stays = here(stage + 1);
    input_stays = here(stage - 1);
    blocks = static_cast<double>(parts.end_layer - parts.first_layer);
    again = static_cast<double>(z.checkpointed_blocks(parts));
    again_inner = again - (z.checkpointed(parts.first_layer) ? 1 : 0);
  }

  bool keeps_loss_graph() const {
    return !policy.detach_loss && !policy.roots_as_edges && !policy.release;
  }
  /// What is returned when the step ends, graph apart.
  Terms returned() const {
    if (parts.last) return {{"logits", 1}, {"loss", 1}};
    return {{"x", policy.roots_as_edges ? 0 : 1}};
  }

  Terms forwarded() const {
    Terms t = returned();
    t["x"] += blocks - 1 + (parts.first ? 1 : 0);
    // The input is another stage's output, which that stage no longer keeps.
    if (input_stays && policy.roots_as_edges) t["x"] += 1;
    t["a_w"] += blocks - again;
    t["a_n"] += blocks - again;
    if (parts.last) {
      t["x"] += 2;  // the last block's output, the norm's output
      t["head"] += 1;
      t["logp"] += 1;
    }
    return t;
  }

  /// What the input pass takes down.
  void add_gradients(Terms& t) const {
    t["g"] += blocks;
    t["x"] += blocks - 1 + (parts.last || output_stays ? 1 : 0);  // else a receive buffer
    if (parts.last) {
      t["logits"] += 1;
      t["x"] += 1;
    }
  }

  Terms split() const {
    Terms t = forwarded();
    if (parts.first) {  // nothing was done yet
      if (output_stays) t["x"] += 1;
      return t;
    }
    add_gradients(t);
    if (policy.release) {
      t["a_n"] -= blocks - again;
      if (z.transformer) t["x"] += blocks - again;  // attention's output, which a parameter reads
    }
    if (parts.last && !keeps_loss_graph()) t["logp"] -= 1;
    return t;
  }

  Terms done(bool was_split) const {
    Terms t = returned();
    if (parts.first || !was_split) return t;
    const bool held_by_root =
        parts.last ? !policy.detach_last || !policy.detach_loss : !policy.detach_outputs;
    const bool graph = !policy.clean_hooks || (held_by_root && !policy.roots_as_edges);
    if (graph && !policy.release) {
      t["a_n"] += blocks - again + again * static_cast<double>(z.runs_a_block(policy));
      t["x"] += again_inner;
    }
    if (!policy.clean_hooks) add_gradients(t);
    if (parts.last && keeps_loss_graph()) t["logp"] += 1;
    return t;
  }
};

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
  std::map<int, Holding> holdings;
  std::map<int, State> states;
  double parameters = 0, buffers = 0, inputs = 0;
  for (int stage = 0; stage < schedule.stages; ++stage) {
    if (schedule.rank_of(stage) != rank) continue;
    const auto& holding = holdings.try_emplace(stage, z, policy, schedule, stage).first->second;
    parameters += parameter_bytes(z, holding.parts);
    if (!holding.parts.first && !holding.input_stays) buffers += z.microbatches;
    if (!holding.parts.last && !holding.output_stays) buffers += z.microbatches;
    for (const bool reads : {holding.parts.first, holding.parts.last})
      if (reads) inputs += static_cast<double>(z.microbatches * z.tokens * 8);
  }

  std::vector<Expectation> all;
  std::map<std::pair<int, int>, double> handed_on;  // to a stage of this rank, not yet taken
  double threads = trial.steps > 1 ? 2 : 0;         // that have multiplied, so have a workspace
  for (const Action& action : schedule.order[static_cast<std::size_t>(rank)]) {
    const auto& holding = holdings.at(action.stage);
    State& state = states[action.stage];
    const bool backward = action.pass == Pass::backward || action.pass == Pass::input;
    if (action.pass == Pass::forward) ++state.forwarded, threads = std::max(threads, 1.0);
    if (backward) --state.forwarded, ++(action.pass == Pass::input ? state.split : state.done);
    if (action.pass == Pass::weight) --state.split, ++state.done;
    if (action.pass != Pass::forward && (action.pass != Pass::input || !holding.parts.first))
      threads = 2;
    // Gradients, and with gradient edges activations, wait for a stage of the same rank.
    if (backward && holding.input_stays) handed_on[{action.stage - 1, action.microbatch}] = 1;
    if (backward && holding.output_stays) handed_on[{action.stage, action.microbatch}] = 0;
    const auto next = std::pair(-action.stage - 2, action.microbatch);
    const auto mine = std::pair(-action.stage - 1, action.microbatch);
    if (policy.roots_as_edges && action.pass == Pass::forward) {
      if (holding.output_stays) handed_on[next] = 1;
      handed_on[mine] = 0;
    }
    if (!marked(action, z.microbatches)) continue;

    Terms terms;
    double gradients = 0;
    for (const auto& [stage, h] : holdings) {
      const State& s = states[stage];
      add(terms, h.forwarded(), s.forwarded);
      add(terms, h.split(), s.split);
      add(terms, h.done(splits_backward(schedule.kind)), s.done);
      if (s.done > 0) gradients += parameter_bytes(z, h.parts);
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
