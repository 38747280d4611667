// The training step: zero gradients, all microbatches through the pipeline, mean over them, plain
// gradient descent; the same code for every variant. Loss is the mean cross entropy over the tokens
// of a microbatch. A rank works through its part of the schedule in order, and its stages exchange
// activations and gradients with their neighbours.
#include <ATen/ATen.h>

#include <map>

#include "cases/numbers.h"
#include "cases/zero_bubble_detach/checkpoint.h"
#include "cases/zero_bubble_detach/pipeline_stage.h"
#include "cases/zero_bubble_detach/stage_model.h"
#include "harness/measure/recorder.h"
#include "harness/measure/scenario_record.h"
#include "harness/parallel/communicator.h"
#include "harness/ranks/world.h"
#include "reference/language_model.h"

namespace tidemark::zero_bubble_detach {
namespace {

class Training final : public Program {
 public:
  Training(const Trial& trial, const StagePolicy& policy, const World& world)
      : trial_(trial),
        sizes_(trial),
        schedule_(schedule_of(trial)),
        rank_(world.rank()),
        moves_(with_transfers(schedule_).at(static_cast<std::size_t>(rank_))),
        communicator_(world.size() > 1 ? std::make_unique<Communicator>(world) : nullptr) {
    const auto options = at::TensorOptions().device(at::kCUDA);
    const auto type = sizes_.bf16 ? at::kBFloat16 : at::kFloat;
    const auto tokens = [&] {
      const CategoryScope category(MemoryKind::inputs);
      return at::zeros({sizes_.microbatches, sizes_.tokens}, options.dtype(at::kLong));
    };
    for (const auto& place : stages_of(sizes_, schedule_, rank_)) {
      std::vector<at::Tensor> own;
      for (const auto& p : parameters_of(sizes_, place))
        own.push_back(parameters_.add(trial, p.name, p.shape, type));
      if (place.first) inputs_ = tokens();
      if (place.last) targets_ = tokens();
      stages_.try_emplace(place.number, sizes_, place, std::move(own), policy);
    }
    const CategoryScope category(MemoryKind::receive_buffers);
    const bool all = sizes_.habits.hand_over != HandOver::moved;
    const auto buffers = [&](std::map<Key, Arrival>& arrivals, int stage, bool received) {
      for (int m = 0; received && m < sizes_.microbatches; ++m) {
        const UnitScope unit(unit_of(m));
        arrivals[{stage, m}].buffer =
            at::empty({sizes_.tokens, sizes_.hidden}, options.dtype(type));
      }
    };
    for (const auto& [number, stage] : stages_) {
      const StagePlace& place = stage.place();
      buffers(arrived_inputs_, number, !place.first && (all || !place.input_stays));
      buffers(arrived_gradients_, number, !place.last && (all || !place.output_stays));
    }
  }

  void step(int index, Recorder& recorder) override {
    recorder.phase("zero_grad");
    for (auto& p : parameters_.values) p.mutable_grad().reset();
    fill_inputs(index);

    recorder.phase("pipeline");
    for (auto& [number, stage] : stages_) stage.begin_step();
    run_passes(recorder);
    report_loss(recorder);
    for (auto& [number, stage] : stages_) stage.end_step();

    recorder.phase("optimizer");
    const at::NoGradGuard no_grad;
    for (auto& p : parameters_.values) {
      const CategoryScope category(MemoryKind::gradients);
      if (!p.grad().defined())
        p.mutable_grad() = at::zeros_like(p);  // a control's: nothing got here
      p.mutable_grad().div_(sizes_.microbatches);
    }
    recorder.gradients(parameters_.named(parameters_.gradients()));
    for (auto& p : parameters_.values) p.sub_(p.grad(), reference::kLanguageModelRate);
    if (communicator_) recorder.collectives(communicator_->calls(), communicator_->bytes());
  }

  std::vector<Shard> parameters() override { return parameters_.named(parameters_.values); }

 private:
  /// The tensor that a pass of a stage gets for a microbatch from its neighbour.
  struct Arrival {
    at::Tensor buffer;  // of another rank's; they stay, one a microbatch
    std::unique_ptr<Work> work = {};
    at::Tensor local = {};  // from a stage of this rank: handed over
  };
  using Key = std::pair<int, int>;  // stage, microbatch

  void fill_inputs(int index) {
    if (trial_.mode == Mode::shapes) return;
    // The model learns to name the tokens that it is given.
    for (const at::Tensor& to : {inputs_, targets_}) {
      if (!to.defined()) continue;
      const auto values = reference::tokens(trial_.seed, "inputs." + std::to_string(index),
                                            to.numel(), sizes_.vocabulary);
      const CategoryScope category(MemoryKind::inputs);
      to.copy_(at::tensor(values, at::kLong).view(to.sizes()).pin_memory(), /*non_blocking=*/true);
    }
  }

  static std::string unit_of(int microbatch) {
    return "microbatches." + std::to_string(microbatch);
  }

  static at::Tensor take(Arrival& arrival) {
    if (arrival.local.defined()) return std::exchange(arrival.local, {});
    if (auto work = std::move(arrival.work)) work->wait();
    return arrival.buffer;
  }

  void hand_on(std::map<Key, Arrival>& to, int stage, int microbatch, at::Tensor result) {
    if (stage < 0 || stage >= schedule_.stages) return;
    if (!stages_.contains(stage)) {
      outgoing_ = std::move(result);
      return;
    }
    auto& arrival = to[{stage, microbatch}];
    if (sizes_.habits.hand_over == HandOver::moved) {
      arrival.local = std::move(result);
    } else if (sizes_.habits.hand_over == HandOver::sent) {
      arrival.buffer.copy_(result);
    } else {
      change_category(result, MemoryKind::receive_buffers);
      arrival.buffer = std::move(result);
    }
  }

  void compute(const Action& action) {
    const int s = action.stage, m = action.microbatch;
    auto& stage = stages_.at(s);
    const auto gradient = [&] {
      return stage.place().last ? at::Tensor() : take(arrived_gradients_.at({s, m}));
    };
    if (action.pass == Pass::forward) {
      const UnitScope unit(unit_of(m));
      const auto x = stage.place().first
                         ? inputs_[m]
                         : take(arrived_inputs_.at({s, m})).detach().requires_grad_();
      const auto targets = stage.place().last ? targets_[m] : at::Tensor();
      return hand_on(arrived_inputs_, s + 1, m, stage.forward(m, x, targets));
    }
    if (action.pass == Pass::input) {
      const CategoryScope category(MemoryKind::backward, unit_of(m));
      return hand_on(arrived_gradients_, s - 1, m, stage.input(m, gradient()));
    }
    const CategoryScope category(MemoryKind::gradients);
    if (action.pass == Pass::weight) return stage.weight(m);
    hand_on(arrived_gradients_, s - 1, m, stage.backward(m, gradient()));
  }

  void run_passes(Recorder& recorder) {
    auto run_again = recomputations();
    for (std::size_t i = 0; i < moves_.size(); ++i) {
      const auto& [kind, a, peer] = moves_[i];
      if (kind == Move::Kind::receive) {
        auto& arrival = a.pass == Pass::forward
                            ? arrived_inputs_.at({a.stage + 1, a.microbatch})
                            : arrived_gradients_.at({a.stage - 1, a.microbatch});
        arrival.work = communicator_->receive(arrival.buffer, peer, {.async = true});
        continue;
      }
      if (kind == Move::Kind::compute) {
        compute(a);
        if (i + 1 < moves_.size() && moves_[i + 1].kind == Move::Kind::send) continue;
      } else {
        // The stream waits, so the tensor can go; the host does not.
        communicator_->send(outgoing_, peer, {.async = true})->wait();
        if (sizes_.habits.sent_gradient_stays && a.pass != Pass::forward)
          sent_gradient_ = outgoing_;
        outgoing_.reset();
      }
      if (marked(a, sizes_.microbatches)) recorder.moment(moment_of(a));
      const auto [op, unit] = call_of(a);
      recorder.call(op, unit);
      const auto again = recomputations() - std::exchange(run_again, recomputations());
      if (again > 0) recorder.call("recompute", std::to_string(again) + " blocks");
    }
    sent_gradient_.reset();
  }

  // The last stage's rank has the loss; the others are told, for the report.
  void report_loss(Recorder& recorder) {
    const int last = schedule_.stages - 1, owner = schedule_.rank_of(last);
    const CategoryScope category(MemoryKind::outputs);
    auto loss = rank_ == owner ? stages_.at(last).mean_loss()
                               : at::empty({}, at::TensorOptions().device(at::kCUDA));
    if (communicator_) communicator_->broadcast(loss, owner, {});
    recorder.loss(loss);
    loss.reset();
    if (sizes_.habits.outputs_merged && rank_ == owner) stages_.at(last).merge_outputs();
  }

  const Trial& trial_;
  const Sizes sizes_;
  const PipelineSchedule schedule_;
  const int rank_;
  const std::vector<Move> moves_;
  std::unique_ptr<Communicator> communicator_;
  Parameters parameters_;
  at::Tensor inputs_, targets_;  // [microbatches, tokens], on the ranks that read them
  std::map<int, PipelineStage> stages_;
  std::map<Key, Arrival> arrived_inputs_, arrived_gradients_;
  at::Tensor outgoing_, sent_gradient_;
};

}  // namespace

std::unique_ptr<Program> program(const Trial& trial, const StagePolicy& policy,
                                 const World& world) {
  return std::make_unique<Training>(trial, policy, world);
}

}  // namespace tidemark::zero_bubble_detach
