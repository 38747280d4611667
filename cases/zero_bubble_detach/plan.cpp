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
        model_(autograd_, sizes_, device),
        boundary_(model_.tokens_by(sizes_.hidden, "rest")) {
    const auto places = stages_of(sizes_, schedule_, rank);
    for (const auto& stage : places) {
      stages_.emplace(stage.number,
                      StagePlan(autograd_, model_, sizes_, stage, sizes_.with_habits(policy)));
      // The tokens of all microbatches, and those to predict.
      for (const bool reads : {stage.first, stage.last})
        if (reads)
          resting_.push_back(autograd_.make({sizes_.microbatches * sizes_.tokens * 8, "rest"}));
    }
    for (const auto& stage : places) {
      const bool all = sizes_.habits.hand_over != HandOver::moved;
      receive(inputs_, stage.number, !stage.first && (all || !stage.input_stays));
      receive(gradients_, stage.number, !stage.last && (all || !stage.output_stays));
    }
  }

  reference::Predicted run(int steps) {
    for (int i = 0; i < steps; ++i) one_step();
    return std::move(predicted_);
  }
  /// What the rank holds (active) after every action of the last step.
  struct Residency {
    std::int64_t requested;
    reference::Account account;
  };
  const std::vector<Residency>& after() const { return after_; }
  /// What the last step holds at its end and the one before did not.
  reference::Account added() const {
    reference::Account all = ends_.back();
    for (const auto& term : ends_.at(ends_.size() - 2).terms)
      all.terms[all.place({term.bytes, term.symbol})].count -= term.count;
    return all;
  }

 private:
  /// The input that a pass gets from its neighbour: in a buffer, or handed over by a stage of this
  /// rank.
  struct Arrival {
    Tensor buffer, local;
    Tensor take() { return local ? std::exchange(local, nullptr) : buffer; }
  };

  void receive(std::map<Key, Arrival>& arrivals, int stage, bool buffers) {
    if (!buffers) return;
    for (int m = 0; m < sizes_.microbatches; ++m)
      arrivals[{stage, m}].buffer = autograd_.make(boundary_);
  }

  void one_step() {
    after_.clear();
    begin("zero_grad");
    for (auto& [number, stage] : stages_) stage.zero_gradients();
    begin("pipeline");
    for (auto& [number, stage] : stages_) stage.begin_step();
    for (const auto& action : schedule_.order[static_cast<std::size_t>(rank_)]) {
      const auto [pass, where] = call_of(action);
      memory_.at(pass + ", " + where);
      compute(action);
      after_.push_back({memory_.requested.current, memory_.active_now()});
    }
    memory_.at("the end of the step");
    sent_gradient_.reset();
    report_loss();
    merge_outputs();
    for (auto& [number, stage] : stages_) stage.end_step();
    begin("optimizer");  // in place
    end();
    ends_.push_back(memory_.active_now());
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
    switch (action.pass) {
      case Pass::forward: {
        const Tensor x = info.first ? Tensor() : alias(inputs_.at({s, m}).take());
        return hand_on(inputs_, s + 1, info.output_stays, stage.forward(m, x));
      }
      case Pass::backward:
        return hand_on(gradients_, s - 1, info.input_stays, stage.backward(m, gradient()));
      case Pass::input:
        return hand_on(gradients_, s - 1, info.input_stays, stage.input(m, gradient()));
      case Pass::weight:
        return stage.weight(m);
    }
  }

  const StagePlace& last_place() const { return stages_.rbegin()->second.place(); }

  /// Its mean over the microbatches, or room for that of the rank that has it.
  void report_loss() {
    Tensor all;
    if (last_place().last) all = autograd_.make({std::int64_t{4} * sizes_.microbatches, "losses"});
    autograd_.make({4, "loss"});
  }

  void merge_outputs() {
    if (!sizes_.habits.outputs_merged || !last_place().last) return;
    stages_.rbegin()->second.drop_losses();
    const auto logits = model_.tokens_by(sizes_.vocabulary, "logits");
    autograd_.make({sizes_.microbatches * logits, "merged"});
  }

  const Sizes sizes_;
  const PipelineSchedule schedule_;
  const int rank_;
  Autograd autograd_;
  LanguageModel model_;
  const Amount boundary_;  // a buffer for what travels
  Tensors resting_;
  std::map<int, StagePlan> stages_;
  std::map<Key, Arrival> inputs_, gradients_;
  Tensor sent_gradient_;
  std::vector<Residency> after_;
  std::vector<reference::Account> ends_;  // of the steps
};

std::vector<Expectation> replay_once(const Trial& trial, const StagePolicy& policy, int rank) {
  const Sizes sizes(trial);
  const auto device = current_device_facts();
  const auto schedule = schedule_of(trial);
  RankPlan plan(trial, policy, rank, device);
  const auto predicted = plan.run(trial.steps);
  std::vector<Expectation> all;
  const auto& order = schedule.order[static_cast<std::size_t>(rank)];
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!marked(order[i], schedule.microbatches)) continue;
    const auto& [requested, account] = plan.after()[i];
    all.push_back(accounted_at(moment_of(order[i]), Statistic::requested, account));
    all.push_back(replayed_at(moment_of(order[i]), Statistic::requested, requested));
  }
  if (sizes.sums_norms_in_parts(device.processors)) return all;
  const auto& peaks = predicted.accounts;
  append(all, accounted("pipeline", peaks.at("pipeline").peaks));
  append(all, accounted_at_end("pipeline", peaks.at("pipeline")));
  append(all, accounted("optimizer", peaks.at("optimizer").peaks));
  const auto add = [&](Statistic statistic, const std::string& phase, bool at_end) {
    const auto& level = predicted.phases.at(phase)[static_cast<std::size_t>(statistic)];
    all.push_back(replayed(statistic, phase, at_end, at_end ? level.end : level.peak));
  };
  for (const Statistic statistic : kStatistics) {
    add(statistic, "pipeline", false);
    add(statistic, "pipeline", true);
    add(statistic, "optimizer", false);
  }
  // If the gradient of a lookup sorts its tokens, one of its temporaries is not modelled. That
  // moment is never the highest, but the allocator's use of the temporary is unknown.
  if (rank == schedule.rank_of(0) && sizes.lookup(device).sorts)
    std::erase_if(all, [](const auto& one) { return one.statistic != Statistic::requested; });
  return all;
}

}  // namespace

Formula leak(const Trial& trial, const StagePolicy& policy, int rank) {
  RankPlan plan(trial, policy, rank, current_device_facts());
  plan.run(/*steps=*/2);
  return sum_of(plan.added(), Statistic::requested);
}

std::vector<Expectation> replay(const Trial& trial, const Variant& variant, int rank) {
  static Kept<std::vector<Expectation>> kept;
  const bool control = variant.role == Role::control;
  const std::string& policy = control ? "drop_grads_hooks" : variant.name;  // what it claims
  Trial instant = trial;  // nothing waits for another stream, so schedules do not differ
  instant.schedule = "instant";
  auto all =
      kept.of(instant, policy, rank, [&] { return replay_once(trial, variants()[policy], rank); });
  if (control)
    std::erase_if(
        all, [](const auto& one) { return one.basis != Basis::account || one.moment.empty(); });
  return all;
}

}  // namespace tidemark::zero_bubble_detach
