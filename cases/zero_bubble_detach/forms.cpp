// The forms: what a rank holds between the actions of its schedule, summed over its stages and the
// microbatches on them, and during an action what its operators take and drop besides. All of it is
// alive whatever the allocator does.
//
// There is no form of a peak that is the moment in which CUB sorts the tokens, flash attention has
// divided its keys, the mean loss is computed, or the weight gradient of a norm in floats is summed
// by several blocks, and none where narrow fused norms over many tokens sum their gradients in
// parts (Sizes::sums_norms_in_parts).
#include "cases/zero_bubble_detach/forms.h"

#include <map>
#include <set>
#include <stdexcept>

#include "cases/device_facts.h"
#include "harness/judge/form.h"

namespace tidemark::zero_bubble_detach {
namespace {

std::string text_of(const Terms& terms) {
  std::string text;
  for (const auto& [symbol, count] : terms) {
    if (count < 0) throw std::logic_error(symbol + " is taken away where there is none");
    if (count == 0) continue;
    if (!text.empty()) text += " + ";
    if (count != 1) text += std::to_string(static_cast<std::int64_t>(count)) + "*";
    text += symbol;
  }
  return text;
}

class Rank {
 public:
  Rank(const Trial& trial, const StagePolicy& policy, int rank,
       const reference::DeviceFacts& device)
      : z_(trial),
        policy_(z_.with_habits(policy)),
        schedule_(schedule_of(trial)),
        order_(schedule_.order[static_cast<std::size_t>(rank)]),
        device_(device),
        threads_(trial.steps > 1 ? 2 : 0),
        earlier_((trial.steps - 1) * z_.microbatches),
        tensors_(pass_tensors(z_, device_)) {
    auto& rest = tensors_["rest"];
    for (const auto& place : stages_of(z_, schedule_, rank)) {
      const HeldStage held(z_, policy_, schedule_, place);
      auto& own = stages_.emplace(place.number, Stage{held, {}}).first->second;
      for (auto layer = place.first_layer; layer < place.end_layer; ++layer)
        own.checkpointed.push_back(z_.checkpointed(layer));
      for (const auto& [symbol, count] : gradients_of(held))
        for (int i = 0; i < static_cast<int>(count); ++i)
          for (const Bytes bytes : tensors_.at(symbol)) rest.push_back(bytes);
      for (const bool reads : {held.first, held.last})
        if (reads) rest.push_back(z_.microbatches * z_.tokens * 8);
      for (const bool receives :
           {!held.first && !held.input_stays, !held.last && !held.output_stays})
        for (int m = 0; receives && m < z_.microbatches; ++m) rest.push_back(tensors_["x"][0]);
    }
    tensors_["workspace"] = {device.workspace_bytes};
    tensors_["losses"] = {4 * z_.microbatches};
    for (const auto& [symbol, each] : tensors_) paper_.tensors(symbol, each);
  }

  /// After the marked actions.
  std::vector<Expectation> residency() {
    std::vector<Expectation> all;
    for (const Action& action : order_) {
      advance(action);
      if (!marked(action, z_.microbatches)) continue;
      append(all,
             paper_.forms_at(moment_of(action), {Statistic::requested}, {"", text_of(held())}));
    }
    return all;
  }

  /// Requested bytes that every step leaves in cycles.
  Formula leak() const {
    Terms all;
    for (const auto& [number, stage] : stages_)
      for (const auto& [symbol, n] : stage.held.leaked())
        all[symbol] += n * static_cast<double>(z_.microbatches);
    const std::string text = text_of(all);
    if (text.empty()) return {"0", {}};
    return paper_.forms("", true, {Statistic::requested}, {{"", text}}).front().formula;
  }

  std::vector<Expectation> peaks(std::string& unbalanced) {
    if (!has_peaks()) return {};
    Ledger ledger(tensors_, pass_parts(z_, device_));
    Passes passes(z_, device_, ledger);
    for (const Action& action : order_) {
      const auto& [held_stage, checkpointed, state] = stages_.at(action.stage);
      const Passes::Stage stage{.held = held_stage,
                                .checkpointed = checkpointed,
                                .fresh = state.done == 0,
                                .left = left(held_stage, state),
                                .one_task = policy_.one_weight_task};
      ledger.set(held());
      run(passes, action, stage);
      const auto after = ledger.in_parts();
      advance(action);
      ledger.set(held());
      if (after != ledger.in_parts() && unbalanced.empty())
        unbalanced = moment_of(action) + ": " + text_of(after) + " is left, not " +
                     text_of(ledger.in_parts());
    }
    // The mean of the losses, where they are; room for it elsewhere.
    const HeldStage& last = stages_.rbegin()->second.held;
    ledger.set(held(/*sent=*/false));
    if (last.last) ledger.take("losses");
    ledger.take("loss");
    ledger.moment("the mean loss");
    if (z_.habits.outputs_merged && last.last) {
      ledger.set(held(/*sent=*/false));
      ledger.add(last.done(), -z_.microbatches);
      ledger.add(last.without_loss(), z_.microbatches);
      ledger.take("merged");
      ledger.moment("outputs merged");
    }
    return forms_of(ledger);
  }

 private:
  struct State {
    int forwarded = 0, split = 0, done = 0;
  };
  struct Stage {
    HeldStage held;
    std::vector<bool> checkpointed;  // by block
    State state = {};
  };

  bool has_peaks() const { return threads_ == 2 && !z_.sums_norms_in_parts(device_.processors); }

  static void run(Passes& passes, const Action& action, const Passes::Stage& stage) {
    const auto [pass, where] = call_of(action);
    const std::string name = pass + ", " + where;
    switch (action.pass) {
      case Pass::forward:
        return passes.forward(stage, name);
      case Pass::backward:
        return passes.backward(stage, name);
      case Pass::input:
        return passes.input(stage, name);
      case Pass::weight:
        return passes.weight(stage, name);
    }
  }

  std::vector<Expectation> forms_of(const Ledger& ledger) const {
    Terms resting = between_steps();
    for (const auto& [number, stage] : stages_)
      for (const auto& [symbol, count] : gradients_of(stage.held)) resting[symbol] += count;
    std::vector<FormMoment> highest;
    for (const auto& moment : ledger.highest()) {
      for (const char* symbol : {"parts", "losses", "sort", "uniq", "sum"})
        if (moment.terms.contains(symbol) && moment.terms.at(symbol) > 0) return {};
      highest.push_back({moment.where, text_of(moment.terms)});
    }
    const FormMoment end{"every gradient is there", text_of(resting)};
    auto all = paper_.forms("pipeline", false, kOnPaper, highest);
    append(all, paper_.forms("pipeline", true, kOnPaper, {end}));
    append(all, paper_.forms("optimizer", false, kOnPaper, {end}));
    return all;
  }

  void advance(const Action& action) {
    auto& [stage, checkpointed, state] = stages_.at(action.stage);
    const bool backward = action.pass == Pass::backward || action.pass == Pass::input;
    if (action.pass == Pass::forward) ++state.forwarded, threads_ = std::max(threads_, 1);
    if (backward) --state.forwarded, ++(action.pass == Pass::input ? state.split : state.done);
    if (action.pass == Pass::weight) --state.split, ++state.done;
    if (action.pass != Pass::forward && (action.pass != Pass::input || !stage.first)) threads_ = 2;
    // Gradients, and with gradient edges activations, wait for a stage of the same rank.
    const int s = action.stage, m = action.microbatch;
    if (backward && stage.input_stays) gradients_.insert({s - 1, m});
    if (backward && stage.output_stays) gradients_.erase({s, m});
    if (!policy_.roots_as_edges || action.pass != Pass::forward) return;
    if (stage.output_stays) activations_.insert({s + 1, m});
    activations_.erase({s, m});
  }

  /// Whether a stage still has the last gradient of its input of the step before.
  bool left(const HeldStage& stage, const State& state) const {
    return earlier_ > 0 && state.split + state.done == 0 && stage.keeps_last_gradient();
  }

  /// `sent`: with a gradient that stays after it was sent.
  Terms held(bool sent = true) const {
    Terms all{{"rest", 1}, {"workspace", threads_}};
    const auto add = [&](const Terms& terms, double count) {
      for (const auto& [symbol, n] : terms) all[symbol] += count * n;
    };
    for (const auto& [number, stage] : stages_) {
      const auto& [held, checkpointed, state] = stage;
      add(held.forwarded(), state.forwarded);
      add(held.split(), state.split);
      add(held.done(), state.done);
      add(held.leaked(), static_cast<double>(earlier_));
      if (state.done > 0) add(gradients_of(held), 1);
      if (left(held, state)) all["x"] += 1;
      if (state.done > 0 && sent && held.keeps_sent_gradient()) all["x"] += 1;
    }
    all["x"] += static_cast<double>(gradients_.size() + activations_.size());
    return all;
  }

  /// Memory that the cycles of all steps hold, and outputs that stay. An output that a cycle holds,
  /// as its root or as the input of the next stage, is one tensor.
  Terms between_steps() const {
    Terms all{{"rest", 1}, {"workspace", 2}};
    const auto add = [&](const std::string& symbol, double count) {
      if (count != 0) all[symbol] += count * static_cast<double>(z_.microbatches);
    };
    const double steps = 1 + static_cast<double>(earlier_) / static_cast<double>(z_.microbatches);
    for (const auto& [number, stage] : stages_) {
      const auto& held = stage.held;
      for (const auto& [symbol, count] : held.leaked()) add(symbol, steps * count);
      if (held.keeps_last_gradient()) all["x"] += 1;
      if (!policy_.outputs_stay) continue;
      const bool whole = held.first || !held.splits;  // its backward, so that the root is held
      if (held.last)
        add("logits", 1);
      else
        add("x", whole && policy_.backward_cycle ? 0 : 1);
      add("x", !whole && held.input_leaks ? -1 : 0);
    }
    return all;
  }

  const Sizes z_;
  const StagePolicy policy_;
  const PipelineSchedule schedule_;
  const std::vector<Action> order_;
  const reference::DeviceFacts device_;
  int threads_;                 // that have multiplied, so have a workspace
  const std::int64_t earlier_;  // microbatches of the steps before
  TensorBytes tensors_;
  Vocabulary paper_;
  std::map<int, Stage> stages_;
  std::set<std::pair<int, int>> gradients_, activations_;  // handed to a stage, by microbatch
};

const StagePolicy& claimed(const Variant& variant) {
  return variants()[variant.role == Role::control ? "drop_grads_hooks" : variant.name];
}

}  // namespace

std::string unbalanced(const Trial& trial, const Variant& variant, int rank) {
  std::string found;
  Rank(trial, claimed(variant), rank, current_device_facts()).peaks(found);
  return found;
}

std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int rank) {
  const auto device = current_device_facts();
  const auto& policy = claimed(variant);
  auto all = Rank(trial, policy, rank, device).residency();
  if (variant.role == Role::control) return all;
  std::string ignored;
  for (auto& one : Rank(trial, policy, rank, device).peaks(ignored)) all.push_back(std::move(one));
  return all;
}

Formula leak(const Trial& trial, const StagePolicy& policy, int rank) {
  return Rank(trial, policy, rank, current_device_facts()).leak();
}

std::vector<Symbol> symbols() {
  return {
      {"rest",
       "what stays between steps: parameters, tokens, and a receive buffer for each microbatch and "
       "neighbour"},
      {"workspace", "cuBLAS's workspace of one thread"},
      {"x", "one activation [tokens, hidden]: a block's input, its output's gradient"},
      {"a_w", "saved by the nodes of a block that own a parameter, its input apart"},
      {"a_n", "saved by a block's other nodes: attention, silu, products"},
      {"g", "gradients taken down at a block's parameters, its output's apart"},
      {"f", "one activation [tokens, ffn]"},
      {"k", "keys, or values, of one block"},
      {"s", "what a norm saves beside its input: one number a token"},
      {"y", "[tokens, hidden] in single precision, which a norm in floats saves"},
      {"merged", "logits of all microbatches, in one tensor"},
      {"lse", "log-sum-exp of one block's attention"},
      {"random", "state of the dropout that flash attention keeps, used or not: two tensors"},
      {"delta", "row sums in the backward of attention"},
      {"acc", "accumulator of the queries' gradient in the backward of attention"},
      {"logits", "logits of one microbatch, or their gradient"},
      {"wide", "the same in single precision"},
      {"logp", "log-probabilities of one microbatch, and the loss's weight"},
      {"loss", "one loss, or its gradient"},
      {"idx", "an index for each token"},
      {"rows", "sums of rows of the embedding's gradient, and where they are"},
      {"W", "gradients of all parameters of one block"},
      {"w_n", "gradient of one norm's weight"},
      {"w_q", "gradient of a matrix [hidden, hidden]"},
      {"w_k", "gradient of the matrix that makes keys, or values"},
      {"w_f", "gradient of a matrix [ffn, hidden]"},
      {"w_v", "gradient of the embedding, or of the head: [vocabulary, hidden]"},
  };
}

}  // namespace tidemark::zero_bubble_detach
