// The replay: what the stages of a rank take and give back in every pass of the schedule, run
// through the model of the allocator.
#include "cases/zero_bubble_detach/plan.h"

#include <map>
#include <utility>

#include "cases/accounts.h"
#include "cases/device_facts.h"
#include "cases/kept.h"
#include "harness/judge/form.h"

namespace tidemark::zero_bubble_detach {
namespace {

void subtract(const reference::Account& part, reference::Account& from) {
  for (const auto& term : part.terms)
    from.terms[from.place({term.bytes, term.symbol})].count -= term.count;
  from.unsplit -= part.unsplit;
}

// Nothing ever waits for another stream, so every schedule of the device is the instant one.
class RankPlan : reference::Replay {
  using Key = std::pair<int, int>;  // stage, microbatch
  using Tensor = reference::autograd::Tensor;

 public:
  RankPlan(const Trial& trial, const StagePolicy& policy, int rank,
           const reference::DeviceFacts& device)
      : Replay(device, 1, true),
        sizes_(trial),
        schedule_(schedule_of(trial)),
        rank_(rank),
        autograd_(memory_),
        model_(autograd_, sizes_, device) {
    const auto places = stages_of(sizes_, schedule_, rank);
    for (const auto& stage : places) {
      stages_.try_emplace(stage.number, autograd_, model_, sizes_, stage, policy);
      // The tokens of all microbatches, and those to predict.
      for (const bool reads : {stage.first, stage.last})
        if (reads)
          resting_.push_back(autograd_.make({sizes_.microbatches * sizes_.tokens * 8, "rest"}));
    }
    const bool all = sizes_.habits.hand_over != HandOver::moved;
    const auto buffers = [&](std::map<Key, Arrival>& arrivals, int stage, bool received) {
      for (int m = 0; received && m < sizes_.microbatches; ++m)
        arrivals[{stage, m}].buffer = autograd_.make(model_.tokens_by(sizes_.hidden, "rest"));
    };
    for (const auto& stage : places) {
      buffers(inputs_, stage.number, !stage.first && (all || !stage.input_stays));
      buffers(gradients_, stage.number, !stage.last && (all || !stage.output_stays));
    }
  }

  reference::Predicted run(int steps) {
    for (int i = 0; i < steps; ++i) one_step();
    return std::move(predicted_);
  }
  /// What is freed when the user drops the losses of the last step.
  reference::Account drop_losses() {
    auto freed = memory_.active_now();
    for (auto& [number, stage] : stages_) stage.drop_losses_of_user();
    subtract(memory_.active_now(), freed);
    return freed;
  }
  /// Accounts of the rank's active memory after the marked actions of the last step.
  std::vector<Expectation> trajectory;

 private:
  /// The input that a pass gets from its neighbour: in a buffer, or handed over by a stage of this
  /// rank.
  struct Arrival {
    Tensor buffer, local;
    Tensor take() { return local ? std::exchange(local, nullptr) : buffer; }
  };

  void one_step() {
    trajectory.clear();
    begin("zero_grad");
    for (auto& [number, stage] : stages_) stage.zero_gradients();
    begin("pipeline");
    for (auto& [number, stage] : stages_) stage.begin_step();
    for (const auto& action : schedule_.order[static_cast<std::size_t>(rank_)]) {
      const auto [pass, where] = call_of(action);
      memory_.at(pass + ", " + where);
      compute(action);
      if (marked(action, sizes_.microbatches))
        trajectory.push_back(
            accounted_at(moment_of(action), Statistic::requested, memory_.active_now()));
    }
    memory_.at("the end of the step");
    sent_gradient_.reset();
    report();
    for (auto& [number, stage] : stages_) stage.end_step();
    begin("optimizer");  // in place
    end();
  }

  void compute(const Action& action) {
    const int s = action.stage, m = action.microbatch;
    auto& stage = stages_.at(s);
    const auto& info = stage.place();
    const auto gradient = [&] { return info.last ? Tensor() : gradients_.at({s, m}).take(); };
    // A result that goes to another rank is sent at once, and dropped; a gradient may stay until
    // the next.
    const auto hand_on = [&](std::map<Key, Arrival>& to, int where, bool stays, Tensor result) {
      if (!stays && &to == &gradients_ && !info.first && sizes_.habits.sent_gradient_stays)
        sent_gradient_ = std::move(result);
      if (!stays) return;
      auto& arrival = to[{where, m}];
      if (sizes_.habits.hand_over == HandOver::moved) arrival.local = std::move(result);
      if (sizes_.habits.hand_over == HandOver::stays) arrival.buffer = std::move(result);
    };
    if (action.pass == Pass::weight) return stage.weight(m);
    if (action.pass == Pass::forward) {
      const Tensor x = info.first ? Tensor() : alias(inputs_.at({s, m}).take());
      return hand_on(inputs_, s + 1, info.output_stays, stage.forward(m, x));
    }
    const bool whole = action.pass == Pass::backward;
    hand_on(gradients_, s - 1, info.input_stays,
            whole ? stage.backward(m, gradient()) : stage.input(m, gradient()));
  }

  /// The loss of the step, the mean over the microbatches or room for it; then the merged outputs.
  void report() {
    const bool last = schedule_.rank_of(schedule_.stages - 1) == rank_;
    {
      Tensor all;
      if (last) all = autograd_.make({std::int64_t{4} * sizes_.microbatches, "losses"});
      autograd_.make({4, "loss"});
    }
    if (!sizes_.habits.outputs_merged || !last) return;
    stages_.rbegin()->second.return_losses();
    const auto logits = model_.tokens_by(sizes_.vocabulary, "logits");
    autograd_.make({sizes_.microbatches * logits, "merged"});
  }

  const Sizes sizes_;
  const PipelineSchedule schedule_;
  const int rank_;
  Autograd autograd_;
  LanguageModel model_;
  Tensors resting_;
  std::map<int, StagePlan> stages_;
  std::map<Key, Arrival> inputs_, gradients_;
  Tensor sent_gradient_;
};

/// The results of one replay.
struct Replayed {
  std::vector<Expectation> expectations;
  Formula held;
};

Replayed replay_once(const Trial& trial, const StagePolicy& policy, int rank) {
  const Sizes sizes(trial);
  const auto device = current_device_facts();
  RankPlan plan(trial, policy, rank, device);
  const auto predicted = plan.run(trial.steps);
  Replayed result{plan.trajectory, sum_of(plan.drop_losses(), Statistic::allocated)};
  auto& all = result.expectations;
  if (sizes.sums_norms_in_parts(device.processors)) return result;
  for (const std::string phase : {"pipeline", "optimizer"}) {
    const auto& accounts = predicted.accounts.at(phase);
    const bool ends = phase == "pipeline";
    append(all, accounted(phase, accounts.peaks));
    if (ends) append(all, accounted_at_end(phase, accounts));
    append(all, replayed(phase, predicted.phases.at(phase), ends));
  }
  // If the gradient of a lookup sorts its tokens, one of its temporaries is not modelled. That
  // moment is never the highest, but the allocator's use of the temporary is unknown.
  if (rank == 0 && sizes.lookup(device).sorts)
    std::erase_if(all, [](const auto& one) { return one.statistic != Statistic::requested; });
  return result;
}

/// The variant that predicts the memory of this one: itself, or the fix that a control claims to
/// be.
std::string claimed(const Variant& variant) {
  if (variant.role != Role::control) return variant.name;
  return variants()[variant.name].clears_mean_alone ? "clear_losses" : "drop_grads_hooks";
}

const Replayed& kept_replay(const Trial& trial, const Variant& variant, int rank) {
  static Kept<Replayed> kept;
  const std::string policy = claimed(variant);
  Trial instant = trial;  // nothing waits for another stream, so schedules do not differ
  instant.schedule = "instant";
  return kept.of(instant, policy, rank,
                 [&] { return replay_once(trial, variants()[policy], rank); });
}

}  // namespace

Formula leak(const Trial& trial, const Variant& variant, int rank) {
  const auto& policy = variants()[variant.name];
  if (!policy.backward_cycle) return {"0", {}};
  RankPlan plan(trial, policy, rank, current_device_facts());
  const auto before = plan.run(/*steps=*/1).accounts.at("optimizer").active;
  auto added = plan.run(/*steps=*/1).accounts.at("optimizer").active;
  subtract(before, added);
  return sum_of(added, Statistic::requested);
}

Formula held(const Trial& trial, const Variant& variant, int rank) {
  if (!Sizes(trial).losses_kept) return {"0", {}};
  return kept_replay(trial, variant, rank).held;
}

std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int rank) {
  auto all = kept_replay(trial, variant, rank).expectations;
  if (variant.role == Role::control)
    std::erase_if(
        all, [](const auto& one) { return one.basis != Basis::account || one.moment.empty(); });
  return all;
}

}  // namespace tidemark::zero_bubble_detach
