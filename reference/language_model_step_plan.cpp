#include "reference/language_model_step_plan.h"

#include <utility>

#include "reference/language_model_stage_plan.h"

namespace tidemark::reference {
namespace autograd {
namespace {

// Nothing ever waits for another stream, so every schedule of the device is the instant one.
class RankPlan : Replay {
  using Key = std::pair<int, int>;  // stage, microbatch

 public:
  RankPlan(const PipelineStep& step, const DropPolicy& policy, const DeviceFacts& device)
      : Replay(device, 1, true),
        step_(step),
        autograd_(memory_),
        operators_(autograd_, step.shape, device),
        boundary_(operators_.activation_bytes(step.shape.hidden)) {
    for (const auto& stage : step.stages) {
      stages_.emplace(stage.number, StagePlan(autograd_, operators_, step_, stage, policy));
      // The tokens of all microbatches, and those to predict.
      for (const bool reads : {stage.first, stage.last})
        if (reads) resting_.push_back(autograd_.make(step.microbatches * step.shape.tokens * 8));
    }
    for (const auto& stage : step.stages) {
      info_[stage.number] = stage;
      receive(inputs_, stage.number, !stage.first && !stage.input_stays);
      receive(gradients_, stage.number, !stage.last && !stage.output_stays);
    }
  }

  PipelinePrediction run(int steps) {
    for (int i = 0; i < steps; ++i) one_step();
    return {std::move(predicted_), std::move(after_)};
  }

 private:
  /// What a pass gets from its neighbour: in a buffer, or handed over by a stage of this rank.
  struct Arrival {
    Tensor buffer, local;
    Tensor take() { return local ? std::exchange(local, nullptr) : buffer; }
  };

  void receive(std::map<Key, Arrival>& arrivals, int stage, bool from_afar) {
    if (!from_afar) return;
    for (int m = 0; m < step_.microbatches; ++m)
      arrivals[{stage, m}].buffer = autograd_.make(boundary_);
  }

  void one_step() {
    after_.clear();
    begin("zero_grad");
    for (auto& [number, stage] : stages_) stage.zero_gradients();
    begin("pipeline");
    for (auto& [number, stage] : stages_) stage.begin_step();
    for (const auto& action : step_.actions) {
      compute(action);
      after_.push_back(memory_.requested.current);
    }
    report_loss();
    for (auto& [number, stage] : stages_) stage.end_step();
    begin("optimizer");  // in place
    end();
  }

  void compute(const StepAction& action) {
    const int s = action.stage, m = action.microbatch;
    auto& stage = stages_.at(s);
    const auto& info = info_.at(s);
    const auto gradient = [&] { return info.last ? Tensor() : gradients_.at({s, m}).take(); };
    // A result that goes to another rank is sent at once, and dropped.
    const auto hand_on = [&](std::map<Key, Arrival>& to, int where, bool stays, Tensor result) {
      if (stays) to[{where, m}].local = std::move(result);
    };
    switch (action.pass) {
      case StepAction::Pass::forward: {
        const Tensor x = info.first ? Tensor() : alias(inputs_.at({s, m}).take());
        return hand_on(inputs_, s + 1, info.output_stays, stage.forward(m, x));
      }
      case StepAction::Pass::backward:
        return hand_on(gradients_, s - 1, info.input_stays, stage.backward(m, gradient()));
      case StepAction::Pass::input:
        return hand_on(gradients_, s - 1, info.input_stays, stage.input(m, gradient()));
      case StepAction::Pass::weight:
        return stage.weight(m);
    }
  }

  /// Its mean over the microbatches, or room for that of the rank that has it.
  void report_loss() {
    Tensor all;
    if (step_.stages.back().last) all = autograd_.make(4 * step_.microbatches);
    autograd_.make(4);
  }

  const PipelineStep step_;
  Autograd autograd_;
  Operators operators_;
  const std::int64_t boundary_;  // bytes of what travels
  Tensors resting_;
  std::map<int, StagePlan> stages_;
  std::map<int, StepStage> info_;
  std::map<Key, Arrival> inputs_, gradients_;
  std::vector<std::int64_t> after_;
};

}  // namespace
}  // namespace autograd

PipelinePrediction predict(const PipelineStep& step, const DropPolicy& policy, int steps,
                           const DeviceFacts& device) {
  return autograd::RankPlan(step, policy, device).run(steps);
}

}  // namespace tidemark::reference
