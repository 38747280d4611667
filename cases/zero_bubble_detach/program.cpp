// The training step: zero gradients, all microbatches through the pipeline, mean over them, plain
// gradient descent; the same code for every variant. Loss is the mean cross entropy over the tokens
// of a microbatch.
#include <ATen/ATen.h>

#include <functional>
#include <map>

#include "cases/numbers.h"
#include "cases/zero_bubble_detach/checkpoint.h"
#include "cases/zero_bubble_detach/pipeline_rank.h"
#include "cases/zero_bubble_detach/policy.h"
#include "cases/zero_bubble_detach/transformer_block.h"
#include "harness/measure/recorder.h"
#include "harness/ranks/world.h"
#include "reference/language_model.h"

namespace tidemark::zero_bubble_detach {
namespace {

constexpr double kRate = reference::kLanguageModelRate;

class LanguageModel {
 public:
  explicit LanguageModel(const Sizes& sizes)
      : sizes_(sizes),
        block_{.hidden = sizes.hidden,
               .ffn = sizes.ffn,
               .heads = sizes.heads,
               .kv_heads = sizes.kv_heads,
               .sequence = sizes.sequence,
               .norms_in_floats = sizes.norms_in_floats},
        each_(sizes.transformer ? transformer_parameters(block_)
                                : mlp_parameters(sizes.hidden, sizes.ffn)) {}

  /// Parameters of a stage, in the model's order; `tasks` gets the block of each.
  std::vector<NamedShape> parameters(const StagePlace& own, std::vector<int>& tasks) const {
    std::vector<NamedShape> all;
    const auto add = [&](const std::string& name, std::vector<std::int64_t> shape,
                         std::int64_t task) {
      all.push_back({name, std::move(shape)});
      tasks.push_back(static_cast<int>(task));
    };
    if (own.first) add("embedding", {sizes_.vocabulary, sizes_.hidden}, -1);
    for (auto layer = own.first_layer; layer < own.end_layer; ++layer) {
      for (const auto& p : each_) {
        // "fc" and "norm" in a name choose the range of its first values.
        const std::string kind = p.shape.size() == 2 && p.name[0] == 'w' ? "fc." : "";
        add("layers." + std::to_string(layer) + "." + kind + p.name, p.shape, layer);
      }
    }
    if (own.last) {
      add("norm", {sizes_.hidden}, sizes_.layers);
      add("fc.head", {sizes_.vocabulary, sizes_.hidden}, sizes_.layers);
    }
    return all;
  }

  /// A stage over its parameters. `target`: the tokens to predict, by microbatch; last stage only.
  PipelineStage::Model stage(const StagePlace& own, const std::vector<at::Tensor>& parameters,
                             std::vector<int> tasks, std::function<at::Tensor(int)> target) const {
    PipelineStage::Model model;
    model.first = own.first;
    model.tasks = std::move(tasks);
    model.parameters = parameters;
    model.forward = [own, parameters, self = *this](const at::Tensor& input) {
      return self.forward(own, parameters, input);
    };
    if (own.last)
      model.loss = [target = std::move(target)](const at::Tensor& logits, int microbatch) {
        return at::cross_entropy_loss(logits.to(at::kFloat), target(microbatch));
      };
    return model;
  }

 private:
  at::Tensor forward(const StagePlace& own, const std::vector<at::Tensor>& parameters,
                     const at::Tensor& input) const {
    auto next = parameters.begin();
    at::Tensor x = input;
    if (own.first) x = at::embedding(*next++, x);
    const auto count = std::ssize(each_);
    for (auto layer = own.first_layer; layer < own.end_layer; ++layer, next += count) {
      const std::vector<at::Tensor> weights(next, next + count);
      const auto run = [weights, self = *this](const at::Tensor& t) {
        return self.sizes_.transformer ? transformer_block(t, weights, self.block_)
                                       : mlp_block(t, weights);
      };
      x = sizes_.checkpointed(layer) ? checkpoint(run, x) : run(x);
    }
    if (!own.last) return x;
    const at::Tensor norm = *next++;
    return at::linear(rms_norm(x, norm, block_.epsilon, block_.norms_in_floats), *next);
  }

  const Sizes sizes_;
  const TransformerShape block_;
  const std::vector<NamedShape> each_;  // of a block
};

class Training final : public Program {
 public:
  Training(const Trial& trial, const StagePolicy& policy, const World& world)
      : trial_(trial),
        sizes_(trial),
        schedule_(schedule_of(trial)),
        rank_(world.rank()),
        communicator_(world.size() > 1 ? std::make_unique<Communicator>(world) : nullptr) {
    const auto device = at::TensorOptions().device(at::kCUDA);
    const auto type = sizes_.bf16 ? at::kBFloat16 : at::kFloat;
    const auto tokens = [&] {
      const CategoryScope category("inputs");
      return at::zeros({sizes_.microbatches, sizes_.tokens}, device.dtype(at::kLong));
    };
    const LanguageModel model(sizes_);
    std::map<int, std::unique_ptr<PipelineStage>> stages;
    for (const auto& place : stages_of(sizes_, schedule_, rank_)) {
      std::vector<at::Tensor> own;
      std::vector<int> tasks;
      for (const auto& p : model.parameters(place, tasks))
        own.push_back(parameters_.add(trial, p.name, p.shape, type));
      if (place.first) inputs_ = tokens();
      if (place.last) targets_ = tokens();
      stages[place.number] =
          std::make_unique<PipelineStage>(model.stage(place, std::move(own), std::move(tasks),
                                                      [this](int m) { return targets_[m]; }),
                                          sizes_.with_habits(policy));
    }
    pipeline_ = std::make_unique<PipelineRank>(schedule_, rank_, communicator_.get(),
                                               Boundary{{sizes_.tokens, sizes_.hidden}, type},
                                               std::move(stages), sizes_.habits);
  }

  void step(int index, Recorder& recorder) override {
    recorder.phase("zero_grad");
    for (auto& p : parameters_.values) p.mutable_grad().reset();
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
    merge_outputs();
    for (const auto& [number, stage] : pipeline_->stages()) stage->end_step();

    recorder.phase("optimizer");
    const at::NoGradGuard no_grad;
    for (auto& p : parameters_.values) {
      const CategoryScope category("gradients");
      if (!p.grad().defined())
        p.mutable_grad() = at::zeros_like(p);  // a control's: nothing got here
      p.mutable_grad().div_(sizes_.microbatches);
    }
    recorder.gradients(parameters_.named(parameters_.gradients()));
    for (auto& p : parameters_.values) p.sub_(p.grad(), kRate);
    if (communicator_) recorder.record.counters.collectives = communicator_->calls();
  }

  std::vector<Shard> parameters() override { return parameters_.named(parameters_.values); }

 private:
  void fill_inputs(int index) {
    if (trial_.mode == Mode::shapes) return;
    const auto tokens = [&](const at::Tensor& to, const char* what) {
      if (!to.defined()) return;
      const auto values =
          reference::tokens(trial_.seed, std::string(what) + "." + std::to_string(index),
                            to.numel(), sizes_.vocabulary);
      const CategoryScope category("inputs");
      to.copy_(at::tensor(values, at::kLong).view(to.sizes()).pin_memory(), /*non_blocking=*/true);
    };
    tokens(inputs_, "inputs");
    tokens(targets_, "targets");
  }

  // Makes the outputs that the step would return, when its losses have been freed.
  void merge_outputs() {
    const auto last = pipeline_->stages().find(schedule_.stages - 1);
    if (!sizes_.habits.outputs_merged || last == pipeline_->stages().end()) return;
    const CategoryScope category("outputs");
    last->second->drop_losses();
    last->second->merged_outputs();
  }

  // The last stage's rank has it; the others are told, for the report.
  void report_loss(Recorder& recorder) {
    const int last = schedule_.stages - 1, owner = schedule_.rank_of(last);
    const CategoryScope category("outputs");
    auto loss = rank_ == owner ? pipeline_->stages().at(last)->mean_loss()
                               : at::empty({}, at::TensorOptions().device(at::kCUDA));
    if (communicator_) communicator_->broadcast(loss, owner, {});
    recorder.loss(loss);
  }

  const Trial& trial_;
  const Sizes sizes_;
  const PipelineSchedule schedule_;
  const int rank_;
  std::unique_ptr<Communicator> communicator_;
  Parameters parameters_;
  at::Tensor inputs_, targets_;  // [microbatches, tokens], on the ranks that read them
  std::unique_ptr<PipelineRank> pipeline_;
};

}  // namespace

std::unique_ptr<Program> program(const Trial& trial, const StagePolicy& policy,
                                 const World& world) {
  return std::make_unique<Training>(trial, policy, world);
}

}  // namespace tidemark::zero_bubble_detach
