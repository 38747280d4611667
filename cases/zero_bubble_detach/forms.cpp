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
#include <stdexcept>

#include "cases/device_facts.h"
#include "harness/judge/form.h"

namespace tidemark::zero_bubble_detach {
namespace {

std::string text_of(const Terms& terms) {
  Alive all;
  for (const auto& [symbol, count] : terms) {
    if (count < 0) throw std::logic_error(symbol + " is taken away where there is none");
    all.add(symbol, static_cast<std::int64_t>(count));
  }
  return all.text();
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
        earlier_(std::int64_t{trial.steps - 1} * z_.microbatches),
        tensors_(pass_tensors(z_, device_)) {
    auto& rest = tensors_["rest"];
    for (const auto& place : stages_of(z_, schedule_, rank)) {
      const HeldStage held(z_, policy_, schedule_, place);
      const bool left = earlier_ > 0 && held.keeps_last_gradient();
      stages_.emplace(place.number, Passes::Stage{held, /*fresh=*/true, left});
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
    tensors_["losses"] = {std::int64_t{4} * z_.microbatches};
    for (const auto& [symbol, each] : tensors_) paper_.tensors(symbol, each);
  }

  /// The step's passes: first what is held after the marked actions, then the peaks.
  std::vector<Expectation> forms(bool with_peaks) {
    Ledger ledger(tensors_, pass_parts(z_, device_));
    Passes passes(z_, device_, ledger);
    ledger.add(before_passes());
    std::vector<Expectation> all;
    for (const Action& action : order_) {
      Passes::Stage& stage = stages_.at(action.stage);
      run(passes, action, stage);
      if (action.pass != Pass::input || !stage.held.first)
        multiplied(ledger, action.pass == Pass::forward ? 1 : 2);
      if (action.pass == Pass::backward || action.pass == Pass::weight) stage.fresh = false;
      if (action.pass != Pass::forward) stage.left = false;
      if (marked(action, z_.microbatches))
        append(all, paper_.forms_at(moment_of(action), {Statistic::requested},
                                    {"", text_of(ledger.now())}));
    }
    if (!with_peaks || earlier_ == 0 || z_.sums_norms_in_parts(device_.processors)) return all;
    for (const auto& [number, stage] : stages_)
      if (stage.held.keeps_sent_gradient() && !stage.fresh) ledger.drop("x");
    // The mean of the losses, where they are; room for it elsewhere.
    const HeldStage& last = stages_.rbegin()->second.held;
    if (last.last) ledger.take("losses");
    ledger.take("loss");
    ledger.moment("the mean loss");
    if (z_.habits.outputs_merged && last.last) {
      ledger.add({{"losses", 1}, {"loss", 1}}, -1);
      ledger.add(last.of_loss(), -z_.microbatches);
      ledger.take("merged");
      ledger.moment("outputs merged");
    }
    append(all, peaks(ledger));
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

 private:
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

  std::vector<Expectation> peaks(const Ledger& ledger) const {
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

  /// cuBLAS's workspaces, of so many threads that have multiplied by now.
  void multiplied(Ledger& ledger, int threads) {
    for (; threads_ < threads; ++threads_) ledger.take("workspace");
  }

  Terms before_passes() const {
    Terms all{{"rest", 1}, {"workspace", threads_}};
    for (const auto& [number, stage] : stages_) {
      for (const auto& [symbol, count] : stage.held.leaked())
        all[symbol] += static_cast<double>(earlier_) * count;
      all["x"] += stage.left;
    }
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
  std::map<int, Passes::Stage> stages_;
};

}  // namespace

std::vector<Expectation> forms(const Trial& trial, const Variant& variant, int rank) {
  const bool control = variant.role == Role::control;
  const auto& policy = variants()[control ? "drop_grads_hooks" : variant.name];
  return Rank(trial, policy, rank, current_device_facts()).forms(/*with_peaks=*/!control);
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
