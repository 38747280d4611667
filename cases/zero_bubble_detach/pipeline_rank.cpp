#include "cases/zero_bubble_detach/pipeline_rank.h"

#include <ATen/ATen.h>

#include "harness/measure/allocator_trace.h"
#include "harness/measure/recorder.h"

namespace tidemark::zero_bubble_detach {

PipelineRank::PipelineRank(const PipelineSchedule& schedule, int rank, Communicator* communicator,
                           const Boundary& boundary,
                           std::map<int, std::unique_ptr<PipelineStage>> stages,
                           PipelineHabits habits)
    : program_(with_transfers(schedule).at(static_cast<std::size_t>(rank))),
      stage_count_(schedule.stages),
      habits_(habits),
      communicator_(communicator),
      stages_(std::move(stages)) {
  const CategoryScope category("receive buffers");
  const auto options = at::TensorOptions().dtype(boundary.type).device(at::kCUDA);
  const auto buffers = [&](std::map<Key, Arrival>& arrivals, int stage, int from) {
    if (from < 0 || from >= schedule.stages) return;
    if (schedule.rank_of(from) == rank && habits_.hand_over == HandOver::moved) return;
    for (int m = 0; m < schedule.microbatches; ++m)
      arrivals[{stage, m}].buffer = at::empty(boundary.shape, options);
  };
  for (const auto& [stage, unused] : stages_) {
    buffers(inputs_, stage, stage - 1);
    buffers(gradients_, stage, stage + 1);
  }
}

at::Tensor PipelineRank::take(Arrival& arrival) {
  if (arrival.local.defined()) return std::exchange(arrival.local, {});
  if (auto work = std::move(arrival.work)) work->wait();
  return arrival.buffer;
}

void PipelineRank::hand_on(std::map<Key, Arrival>& to, int stage, int microbatch,
                           at::Tensor result) {
  if (stage < 0 || stage >= stage_count_) return;
  if (!stages_.contains(stage)) {
    outgoing_ = std::move(result);
    return;
  }
  auto& arrival = to[{stage, microbatch}];
  switch (habits_.hand_over) {
    case HandOver::moved:
      arrival.local = std::move(result);
      return;
    case HandOver::sent:
      arrival.buffer.copy_(result);
      return;
    case HandOver::stays:
      change_category(result, "receive buffers");
      arrival.buffer = std::move(result);
  }
}

void PipelineRank::compute(const Action& action, const std::function<at::Tensor(int)>& input) {
  auto& stage = *stages_.at(action.stage);
  const int s = action.stage, m = action.microbatch;
  const auto gradient = [&] {
    return s + 1 == stage_count_ ? at::Tensor() : take(gradients_.at({s, m}));
  };
  switch (action.pass) {
    case Pass::forward: {
      const auto x = s == 0 ? input(m) : take(inputs_.at({s, m})).detach().requires_grad_();
      hand_on(inputs_, s + 1, m, stage.forward(m, x));
      return;
    }
    case Pass::backward: {
      const CategoryScope category("gradients");
      return hand_on(gradients_, s - 1, m, stage.backward(m, gradient()));
    }
    case Pass::input:
      return hand_on(gradients_, s - 1, m, stage.input(m, gradient()));
    case Pass::weight: {
      const CategoryScope category("gradients");
      return stage.weight(m);
    }
  }
}

void PipelineRank::run(const std::function<at::Tensor(int microbatch)>& input,
                       const std::function<void(const Action&)>& after) {
  for (std::size_t i = 0; i < program_.size(); ++i) {
    const Move& move = program_[i];
    const Action& a = move.action;
    switch (move.kind) {
      case Move::Kind::compute:
        compute(a, input);
        break;
      case Move::Kind::send:
        // The stream waits, so the tensor can go; the host does not.
        communicator_->send(outgoing_, move.peer, {.async = true})->wait();
        if (habits_.sent_gradient_stays && a.pass != Pass::forward) sent_gradient_ = outgoing_;
        outgoing_.reset();
        break;
      case Move::Kind::receive: {
        auto& arrival = a.pass == Pass::forward ? inputs_.at({a.stage + 1, a.microbatch})
                                                : gradients_.at({a.stage - 1, a.microbatch});
        arrival.work = communicator_->receive(arrival.buffer, move.peer, {.async = true});
        continue;
      }
    }
    const bool sent_next = move.kind == Move::Kind::compute && i + 1 < program_.size() &&
                           program_[i + 1].kind == Move::Kind::send && program_[i + 1].action == a;
    if (!sent_next) after(a);
  }
  sent_gradient_.reset();
}

}  // namespace tidemark::zero_bubble_detach
