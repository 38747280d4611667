#include "cases/zero_bubble_detach/program.h"

#include <ATen/ATen.h>

#include "cases/numbers.h"
#include "harness/measure/recorder.h"
#include "harness/parallel/checkpoint.h"
#include "harness/ranks/world.h"
#include "reference/language_model.h"

namespace tidemark::zero_bubble_detach {
namespace {

constexpr double kRate = reference::kLanguageModelRate;

const char* letter(Pass pass) {
  switch (pass) {
    case Pass::forward:
      return "F";
    case Pass::backward:
      return "B";
    case Pass::input:
      return "I";
    case Pass::weight:
      return "W";
  }
  return "?";
}

}  // namespace

bool marked(const Action& action, int microbatches) {
  const int m = action.microbatch;
  return m == 0 || m == microbatches / 2 || m == microbatches - 1;
}

Call call_of(const Action& action) {
  return {letter(action.pass), "stage " + std::to_string(action.stage) + ", microbatch " +
                                   std::to_string(action.microbatch)};
}

std::string moment_of(const Action& action) {
  const auto [op, unit] = call_of(action);
  return "after " + op + ", " + unit;
}

Training::Training(const Trial& trial, const StagePolicy& policy, const World& world)
    : trial_(trial),
      sizes_(trial),
      schedule_(schedule_of(trial)),
      rank_(world.rank()),
      communicator_(world.size() > 1 ? std::make_unique<Communicator>(world) : nullptr) {
  const auto device = at::TensorOptions().device(at::kCUDA);
  const auto tokens = [&] {
    const CategoryScope category("inputs");
    return at::zeros({sizes_.microbatches, sizes_.tokens}, device.dtype(at::kLong));
  };
  std::map<int, std::unique_ptr<PipelineStage>> stages;
  for (int stage = 0; stage < schedule_.stages; ++stage) {
    if (schedule_.rank_of(stage) != rank_) continue;
    const auto parts = sizes_.parts(stage, schedule_.stages);
    std::vector<at::Tensor> own;
    for (const auto& p : parts.parameters) {
      const CategoryScope category("parameters");
      own.push_back(at::empty(p.shape, device.dtype(sizes_.type)));
      if (trial.mode == Mode::math) fill(trial.seed, p.name, 0, own.back());
      own.back().requires_grad_();
      names_.push_back(p.name);
    }
    parameters_.insert(parameters_.end(), own.begin(), own.end());
    if (parts.first) inputs_ = tokens();
    if (parts.last) targets_ = tokens();
    stages[stage] = std::make_unique<PipelineStage>(
        sizes_.stage(parts, std::move(own), [this](int m) { return targets_[m]; }), policy);
  }
  pipeline_ = std::make_unique<PipelineRank>(
      schedule_, rank_, communicator_.get(),
      Boundary{{sizes_.tokens, sizes_.block.hidden}, sizes_.type}, std::move(stages));
}

Training::~Training() = default;

void Training::fill_inputs(int index) {
  if (trial_.mode == Mode::shapes) return;
  const auto tokens = [&](const at::Tensor& to, const char* what) {
    if (!to.defined()) return;
    const auto values =
        reference::tokens(trial_.seed, std::string(what) + "." + std::to_string(index), to.numel(),
                          sizes_.vocabulary);
    const CategoryScope category("inputs");
    to.copy_(at::tensor(values, at::kLong).view(to.sizes()).pin_memory(), /*non_blocking=*/true);
  };
  tokens(inputs_, "inputs");
  tokens(targets_, "targets");
}

// The last stage's rank has it; the others are told, for the report.
void Training::report_loss(Recorder& recorder) {
  const int last = schedule_.stages - 1, owner = schedule_.rank_of(last);
  const CategoryScope category("outputs");
  auto loss = rank_ == owner ? pipeline_->stages().at(last)->mean_loss()
                             : at::empty({}, at::TensorOptions().device(at::kCUDA));
  if (communicator_) communicator_->broadcast(loss, owner, {});
  recorder.loss(loss);
}

void Training::step(int index, Recorder& recorder) {
  recorder.phase("zero_grad");
  for (auto& p : parameters_) p.mutable_grad().reset();
  fill_inputs(index);

  recorder.phase("pipeline");
  for (const auto& [number, stage] : pipeline_->stages()) stage->begin_step();
  auto run_again = recomputations();
  pipeline_->run([this](int microbatch) { return inputs_[microbatch]; },
                 [&](const Action& action) {
                   if (marked(action, sizes_.microbatches)) recorder.moment(moment_of(action));
                   const auto [op, unit] = call_of(action);
                   recorder.call(op, unit);
                   const auto now = recomputations();
                   if (now > run_again)
                     recorder.call("recompute", std::to_string(now - run_again) + " blocks");
                   run_again = now;
                 });
  report_loss(recorder);
  for (const auto& [number, stage] : pipeline_->stages()) stage->end_step();

  recorder.phase("optimizer");
  const at::NoGradGuard no_grad;
  std::vector<Shard> gradients;
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    auto& p = parameters_[i];
    const CategoryScope category("gradients");
    if (!p.grad().defined()) p.mutable_grad() = at::zeros_like(p);  // a control's: nothing got here
    p.mutable_grad().div_(sizes_.microbatches);
    gradients.push_back({names_[i], 0, p.grad()});
  }
  recorder.gradients(gradients);
  for (auto& p : parameters_) p.sub_(p.grad(), kRate);
  if (communicator_) recorder.record.counters.collectives = communicator_->calls();
}

std::vector<Shard> Training::parameters() {
  std::vector<Shard> shards;
  for (std::size_t i = 0; i < parameters_.size(); ++i)
    shards.push_back({names_[i], 0, parameters_[i].detach()});
  return shards;
}

}  // namespace tidemark::zero_bubble_detach
